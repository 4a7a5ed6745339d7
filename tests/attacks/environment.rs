//! A list of commands holds whatever the definition's environment says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use farmhand_tests::farm::{CALM, Farm, SOON};

fn script(path: &Path, text: &str) {
    fs::write(path, text).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definitions_environment_cannot_make_a_listed_program_run_another() {
    // Where only root can write: the policy executes nothing else.
    let dir = tempfile::tempdir_in("/var/lib").expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let tool = dir.path().join("tool");
    script(&tool, "#!/bin/bash\ndate +listed\n");
    let (evil, path) = (dir.path().join("evil"), dir.path().join("path"));
    fs::create_dir(&path).expect("a directory");
    script(&evil, "echo stolen\n");
    script(&path.join("date"), "#!/bin/sh\necho stolen\n");
    let job = |name: &str, env: &str| {
        format!(
            "[job.{name}]\nuser = 'nobody'\ncommand = ['{}']\nenv = {{ {env} }}\n",
            tool.display()
        )
    };
    let farm = Farm::new()
        .ttl(CALM)
        .policy(&format!(
            "users = ['nobody']\ncommands = ['{}']\nenv_keep = ['MODE']\n",
            tool.display()
        ))
        .jobs(
            &[
                job("plain", "LANG = 'C', TZ = 'Europe/Berlin', MODE = 'fast'"),
                job("path", &format!("PATH = '{}:/usr/bin:/bin'", path.display())),
                job("start", &format!("BASH_ENV = '{}'", evil.display())),
                job("preload", "LD_PRELOAD = '/tmp/evil.so'"),
                job("home", "HOME = '/tmp'"),
            ]
            .concat(),
        )
        .start()
        .await;
    for job in ["plain", "path"] {
        let run = farm.submit(job).await;
        farm.succeeds(run).await;
        assert_eq!(farm.output(run, 1).await, "listed\n", "{job}");
    }
    for (job, name) in [("start", "BASH_ENV"), ("preload", "LD_PRELOAD"), ("home", "HOME")] {
        let run = farm.submit(job).await;
        let done = farm.over(run, SOON).await;
        assert_eq!(
            farm.output(run, done.attempt).await,
            "",
            "{job}: nothing was executed"
        );
        let why = done.reason.unwrap_or_default();
        assert!(why.contains(name) && why.contains("env_keep"), "{job}: {why}");
    }
    farm.check().await;
}

/// A shell takes such a variable for a function of that name.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_in_a_definitions_environment_replaces_no_command() {
    let farm = Farm::new()
        .ttl(CALM)
        .jobs("[job.a]\ncommand = ['bash', '-c', 'date +own']\n")
        .start()
        .await;
    let file = farm.dir().join("function.toml");
    let function = "env = { 'BASH_FUNC_date%%' = '() { echo stolen; }' }";
    let job = format!("[job.b]\ncommand = ['bash', '-c', 'date +own']\n{function}\n");
    fs::write(&file, job).expect("a job file");
    let applied = farm.farmhand(&["job", "apply", &file.display().to_string()]);
    let said = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(!applied.status.success(), "{said}");
    assert!(said.contains("`BASH_FUNC_date%%`"), "{said}");
    let past = r#"UPDATE farmhand.job_revision
                  SET spec = spec || '{"env": {"BASH_FUNC_date%%": "() { echo stolen; }"}}'"#;
    farm.exec(past).await;
    let run = farm.submit("a").await;
    let done = farm.over(run, SOON).await;
    assert_eq!(farm.output(run, done.attempt).await, "", "nothing was executed");
    let why = done.reason.unwrap_or_default();
    assert!(why.contains("BASH_FUNC_date%%"), "{why}");
}
