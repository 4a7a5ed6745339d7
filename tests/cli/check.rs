//! `farmhand job check`: everything about job files that needs no database.

use std::path::Path;

use serde_json::{Value, json};

use super::farm::{Farm, Ran, command, ran};

/// Without a database, from this directory.
fn run(dir: &Path, args: &[&str]) -> Ran {
    ran(command("", dir)
        .current_dir(dir)
        .env_remove("FARMHAND_DATABASE_URL")
        .arg("job")
        .args(args))
}

fn files(list: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    for (name, text) in list {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

const GOOD: &str = "[job.good]\ncommand = 'true'\ntriggered_by = 'elsewhere'\n";
const BAD: &str = "[job.bad]\ncomand = ['é', 'x']\ncommand = 'true'\nschedule = '0 25 * * *'\n";

#[test]
fn job_files_are_checked_without_a_database_and_every_mistake_is_told() {
    let dir = files(&[
        ("jobs/a.toml", GOOD),
        ("jobs/deep/er/b.toml", BAD),
        ("jobs/.hidden/c.toml", "["),
    ]);
    let good = run(dir.path(), &["check", "jobs/a.toml"]).ok();
    assert!(
        good.out.is_empty() && good.err.contains("1 job in 1 file: no mistakes"),
        "{good:?}"
    );
    assert!(
        good.err.contains("job elsewhere is in none of these files"),
        "{good:?}"
    );
    let bad = run(dir.path(), &["check", "jobs"]);
    assert_eq!(bad.code, 2, "{bad:?}");
    for part in [
        "unknown key `comand`",
        "jobs/deep/er/b.toml:2:1",
        "jobs/deep/er/b.toml:4:15",
    ] {
        assert!(bad.out.contains(part), "{part}: {bad:?}");
    }
    assert!(bad.err.contains("2 mistakes in 2 files"), "{bad:?}");
    run(dir.path(), &["check", "nowhere"]).refused(2, &["nowhere"]);
}

#[test]
fn mistakes_of_a_check_come_as_json_and_as_sarif() {
    let dir = files(&[("a b.toml", BAD), ("good.toml", GOOD)]);
    let read = |ran: &Ran| -> Value { serde_json::from_str(&ran.out).unwrap() };
    for args in [
        &["check", "a b.toml", "--json"][..],
        &["check", "a b.toml", "--format", "json"],
    ] {
        let bad = run(dir.path(), args);
        let told = read(&bad);
        assert_eq!((bad.code, &told["files"]), (2, &json!(["a b.toml"])));
        let first = &told["mistakes"][0];
        let place = ["line", "column", "end_line", "end_column"].map(|key| first[key].as_u64().unwrap());
        assert_eq!(place, [2, 1, 2, 7], "{told}");
    }
    let good = read(&run(dir.path(), &["check", "good.toml", "--json"]).ok());
    assert_eq!(good, json!({"files": ["good.toml"], "jobs": 1, "mistakes": []}));

    let bad = run(dir.path(), &["check", "a b.toml", "--format", "sarif"]);
    assert_eq!(bad.code, 2);
    let sarif = read(&bad);
    assert_eq!(sarif["version"], "2.1.0");
    let run_of = &sarif["runs"][0];
    let rule = &run_of["tool"]["driver"]["rules"][0]["id"];
    assert_eq!(run_of["results"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&run_of["results"][0]["ruleId"], rule),
        (rule, &json!("job-file"))
    );
    let place = &run_of["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "a%20b.toml");
    assert_eq!(
        place["region"],
        json!({"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 7})
    );
    for format in ["json", "sarif"] {
        let ran = run(
            dir.path(),
            &["check", "good.toml", "gone.toml", "--format", format],
        );
        let told = read(&ran);
        assert_eq!(ran.code, 2, "{ran:?}");
        let results = match format {
            "json" => &told["mistakes"],
            _ => &told["runs"][0]["results"],
        };
        assert_eq!(results.as_array().unwrap().len(), 1, "{told:#}");
        assert!(results[0].to_string().contains("gone.toml"), "{told:#}");
        assert!(results[0].to_string().contains("it cannot be read: "), "{told:#}");
    }
    run(dir.path(), &["check", "gone.toml"]).refused(2, &["gone.toml: No such file"]);
    let good = read(&run(dir.path(), &["check", "good.toml", "--format", "sarif"]).ok());
    assert_eq!(good["runs"][0]["results"], json!([]));
}

#[test]
fn a_circle_of_triggers_is_found_without_a_database() {
    let job = |name: &str, after: &str| format!("[job.{name}]\ncommand = 'true'\ntriggered_by = '{after}'\n");
    let dir = files(&[("a.toml", &(job("a", "b") + &job("b", "a")))]);
    let ran = run(dir.path(), &["check", "a.toml"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.out.contains("a.toml:"), "{ran:?}");
}

#[test]
fn a_dry_run_without_a_database_ends_differently_for_good_files_and_for_bad_ones() {
    let dir = files(&[("good.toml", GOOD), ("bad.toml", BAD)]);
    run(dir.path(), &["apply", "--dry-run", "bad.toml"]).refused(2, &["2 mistakes"]);
    run(dir.path(), &["apply", "--dry-run", "good.toml"]).refused(
        5,
        &[
            "no database is named",
            "the job files have no mistakes",
            "`farmhand job check`",
        ],
    );
    run(dir.path(), &["apply", "good.toml"]).refused(2, &["no database is named"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_applied_with_all_below_it() {
    let farm = Farm::new().await;
    let job = |name: &str| format!("[job.{name}]\ncommand = 'true'\n");
    farm.file("jobs/a.toml", &job("a"));
    farm.file("jobs/team/b.toml", &job("b"));
    farm.file("jobs/team/.git/c.toml", &job("c"));
    let jobs = farm.dir.path().join("jobs");
    // A link to a directory is not followed, so that a circle of links ends.
    std::os::unix::fs::symlink("..", jobs.join("team/up")).unwrap();
    std::os::unix::fs::symlink("team/b.toml", jobs.join("team/.b.toml")).unwrap();
    farm.run(&["job", "apply", jobs.to_str().unwrap()]).ok();
    let listed = farm.run(&["job", "ls", "--json"]).json()["items"].clone();
    let names: Vec<&str> = (listed.as_array().unwrap().iter())
        .map(|job| job["job_id"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_shows_pools_targets_and_deletions_and_its_exit_code_says_whether_there_is_any() {
    let farm = Farm::new().await;
    let text = |size: u32, host: &str, jobs: &str| {
        format!("[pool.p]\nsize = {size}\n[notify.t]\nwebhook = 'https://{host}.example/x'\n{jobs}")
    };
    let (a, b) = ("[job.a]\ncommand = 'true'\n", "[job.b]\ncommand = 'true'\n");
    let file = farm.file("jobs.toml", &text(1, "one", &format!("{a}{b}")));
    let file = file.to_str().unwrap();
    let diff = farm.run(&["job", "diff", "--exit-code", file]);
    assert_eq!(
        (diff.code, diff.out.as_str()),
        (14, "+ pool p\n+ notify t\n+ a\n+ b\n")
    );
    farm.run(&["job", "apply", file]).ok();
    let same = farm.run(&["job", "diff", "--exit-code", "--prune", file]).ok();
    assert_eq!(same.out, "");
    farm.file("jobs.toml", &text(2, "two", a));
    let args = ["job", "diff", "--prune", file];
    let diff = farm.run(&args).ok();
    assert_eq!(
        diff.out,
        "~ pool p\n  - size = 1\n  + size = 2\n~ notify t\n  - webhook = \"https://one.example/…\"\n  \
         + webhook = \"https://two.example/…\"\n- b\n"
    );
    let json = farm.run(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(
        json[0],
        json!({"pool": "p", "change": "updated", "keys": {"size": {"old": 1, "new": 2}}})
    );
    assert_eq!(json[3], json!({"job_id": "b", "change": "deleted", "keys": {}}));
    let kept = farm.run(&["job", "diff", file]).ok();
    assert!(
        !kept.out.contains("- b"),
        "nothing is deleted without --prune: {kept:?}"
    );
    let other = ["job", "diff", "--exit-code", "--job", "a"];
    assert_eq!(farm.run(&other).code, 3, "one revision alone");
    farm.file(
        "jobs.toml",
        "[job.a]\ncommand = 'true'\n[job.b]\ncommand = 'true'\n",
    );
    let gone = farm.run(&["job", "diff", "--prune", file]).ok();
    assert_eq!(gone.out, "- pool p\n- notify t\n");
}
