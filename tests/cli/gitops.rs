//! The shipped job that applies the job files of a Git repository.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use farmhand_tests::bin::farmhand;

use super::farm::{Farm, Ran, ran};

/// Runs git with this identity in this directory; what it prints.
fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "Alice")
            .env(format!("GIT_{role}_EMAIL"), "alice@example.com");
    }
    let done = ran(command.args(args));
    assert_eq!(done.code, 0, "git {args:?}: {done:?}");
    done.out.trim().to_owned()
}

/// A key without a passphrase; its public line.
fn key(dir: &Path, name: &str) -> String {
    let file = dir.join(name);
    let done = ran(Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
        .arg(&file));
    assert_eq!(done.code, 0, "{done:?}");
    std::fs::read_to_string(file.with_extension("pub"))
        .unwrap()
        .trim()
        .to_owned()
}

/// Commits this text as jobs/a.toml, signed with the key or with none, and sets the branch of the bare repository to it.
fn commit(farm: &Farm, text: &str, key: Option<&str>) -> String {
    let dir = farm.dir.path();
    farm.file("work/jobs/a.toml", text);
    let work = dir.join("work");
    git(&work, &["add", "."]);
    let key = key.map(|key| format!("user.signingkey={}", dir.join(key).display()));
    match &key {
        Some(key) => git(
            &work,
            &["-c", "gpg.format=ssh", "-c", key, "commit", "-q", "-S", "-m", "x"],
        ),
        None => git(&work, &["commit", "-q", "-m", "x"]),
    };
    git(
        &work,
        &["push", "-q", "--force", "../bare.git", "HEAD:refs/heads/main"],
    );
    git(&work, &["rev-parse", "HEAD"])
}

/// The example's script with its variables, where these directories are.
fn run(farm: &Farm, rollback: &str) -> Ran {
    let text = include_str!("../../deploy/examples/gitops.toml");
    let table: toml::Table = text.parse().unwrap();
    let job = &table["job"]["apply-jobs-from-git"];
    let dir = farm.dir.path();
    let place = |name: &str| dir.join(name).display().to_string();
    let mut env: BTreeMap<&str, String> = (job["env"].as_table().unwrap().iter())
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap().to_owned()))
        .collect();
    for (name, here) in [
        ("REPOSITORY", "bare.git"),
        ("SIGNERS", "signers"),
        ("CLONE", "clone.git"),
    ] {
        assert!(env.insert(name, place(here)).is_some(), "{name}");
    }
    let run_dir = tempfile::tempdir_in(dir).unwrap();
    let bin = farmhand().parent().unwrap().display().to_string();
    farm.file("url", &farm.db.url());
    ran(Command::new("/bin/sh")
        .args(["-c", job["command"].as_str().unwrap()])
        .env_clear()
        .env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()))
        .env("HOME", dir)
        .envs(env)
        .env("FARMHAND_RUN_DIR", run_dir.path())
        .env("FARMHAND_SECRET_DATABASE_FILE", place("url"))
        .env("FARMHAND_PARAM_ROLLBACK", rollback)
        .current_dir(run_dir.path()))
}

fn names(farm: &Farm) -> Vec<String> {
    let jobs = farm.run(&["job", "ls", "--json"]).json()["items"].clone();
    let name = |job: &serde_json::Value| job["job_id"].as_str().unwrap().to_owned();
    jobs.as_array().unwrap().iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_applies_signed_commits_that_follow_each_other_and_refuses_others() {
    let farm = Farm::new().await;
    let dir = farm.dir.path();
    git(dir, &["init", "-q", "--bare", "-b", "main", "bare.git"]);
    git(dir, &["init", "-q", "-b", "main", "work"]);
    let alice = key(dir, "alice");
    key(dir, "mallory");
    farm.file("signers", &format!("alice@example.com {alice}\n"));
    farm.apply("[job.by-hand]\ncommand = 'true'\n");
    let job = |name: &str| format!("[job.{name}]\ncommand = 'true'\n");

    let first = commit(&farm, &(job("a") + &job("b")), Some("alice"));
    run(&farm, "").ok();
    assert_eq!(names(&farm), ["a", "b", "by-hand"]);
    let again = run(&farm, "").ok();
    assert!(
        again.out.contains(&format!("{first} is applied already")),
        "{again:?}"
    );

    // What is removed there is deleted here, and nothing of another source is.
    let second = commit(&farm, &job("a"), Some("alice"));
    run(&farm, "").ok();
    assert_eq!(names(&farm), ["a", "by-hand"]);

    for (signer, said) in [
        (None, "is not signed by anyone"),
        (Some("mallory"), "is not signed by anyone"),
    ] {
        commit(&farm, &(job("a") + &job("evil")), signer);
        let refused = run(&farm, "");
        assert!(refused.code == 1 && refused.out.contains(said), "{refused:?}");
        git(&dir.join("work"), &["reset", "-q", "--hard", &second]);
    }
    commit(&farm, "[job.a]\ncomand = 'true'\n", Some("alice"));
    let bad = run(&farm, "");
    assert!(
        bad.code == 2 && bad.out.contains("unknown key `comand`"),
        "{bad:?}"
    );
    assert_eq!(names(&farm), ["a", "by-hand"]);

    // An older commit, signed as it is, comes back only when it is named.
    git(
        &dir.join("work"),
        &[
            "push",
            "-q",
            "--force",
            "../bare.git",
            &format!("{first}:refs/heads/main"),
        ],
    );
    let refused = run(&farm, "");
    assert!(
        refused.code == 1 && refused.out.contains(&format!("{first} does not follow {second}")),
        "{refused:?}"
    );
    assert_eq!(run(&farm, &second).code, 1, "another commit is named");
    run(&farm, &first).ok();
    assert_eq!(names(&farm), ["a", "b", "by-hand"]);
}
