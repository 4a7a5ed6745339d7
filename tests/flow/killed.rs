//! What a killed engine leaves behind.

use std::fs;
use std::time::Duration;

use farmhand_tests::freezer::Frozen;
use farmhand_tests::wait::eventually;

use super::fixture::*;
use super::run::scripts;

/// The first run of the task sleeps, with a lock that its processes hold for as long as one of them lives.
const ONCE_AT_A_TIME: &str = r#"
cd DIR
exec 9>a.lock
flock -n 9 || { touch a.twice; exit 1; }
[ -e a.started ] && exit 0
setsid sh -c 'echo $$ > a.daemon; exec sleep 60' 9>&- &
while ! [ -s a.daemon ]; do sleep 0.01; done
touch a.started
sleep 60
"#;

fn killed_and_resumed(script: &str, preload: &[&str]) {
    let files = tempfile::tempdir().unwrap();
    let dir = scripts(&[("a", &script.replace("DIR", path(&files)))]);
    killed_and_resumed_from(path(&dir), preload, &files);
}

fn killed_and_resumed_from(source: &str, preload: &[&str], files: &tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let run_dir = place.path().join("run");
    let file = |name: &str| files.path().join(name);
    let args = |more: &'static [&str]| {
        let mut args = vec!["run", "--run-dir", run_dir.to_str().unwrap()];
        args.extend(preload);
        args.extend(more);
        args.push(source);
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let first = args(&[]);
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    let mut engine = command(&first).spawn().unwrap();
    eventually("the task runs", Duration::from_secs(20), || {
        let started = file("a.started").exists();
        started.then_some(()).ok_or_else(|| "it does not".to_owned())
    });
    engine.kill().unwrap();
    engine.wait().unwrap();
    let again = args(&["--resume"]);
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let out = flow(&again);
    let daemon: i32 = fs::read_to_string(file("a.daemon"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // SAFETY: the daemon that the task started.
    let daemon_lived = unsafe { libc::kill(daemon, libc::SIGKILL) } == 0;
    assert!(!file("a.twice").exists(), "the task was alive twice");
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(daemon_lived, "a daemon that left its session goes on");
}

#[test]
fn a_task_of_a_killed_engine_is_gone_before_the_flow_resumes() {
    killed_and_resumed(ONCE_AT_A_TIME, &[]);
}

#[test]
fn what_a_task_of_a_killed_engine_runs_without_an_environment_is_gone_before_the_flow_resumes() {
    killed_and_resumed(
        &format!("{ONCE_AT_A_TIME}env -i sleep 60\n").replace("\nsleep 60\n", "\n"),
        &[],
    );
}

#[test]
fn a_task_of_a_killed_engine_with_a_library_is_gone_before_the_flow_resumes() {
    let library = tempfile::NamedTempFile::new().unwrap();
    killed_and_resumed(ONCE_AT_A_TIME, &["--preload", library.path().to_str().unwrap()]);
}

#[test]
fn a_task_of_a_job_file_whose_engine_was_killed_is_gone_before_the_flow_resumes() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("jobs.toml");
    let script = ONCE_AT_A_TIME.replace("DIR", path(&files));
    let done = format!("echo >> {}/once", path(&files));
    let text = format!(
        "[job.n.task.a]\ncommand = \"\"\"{script}\"\"\"\nrequires = ['first']\n[job.n.task.first]\ncommand = '{done}'\n"
    );
    fs::write(&file, text).unwrap();
    killed_and_resumed_from(file.to_str().unwrap(), &[], &files);
    let ran = fs::read_to_string(files.path().join("once")).unwrap();
    assert_eq!(ran, "\n", "what succeeded is not run again");
}

#[test]
fn a_directory_is_named_after_a_failure_unless_it_goes_with_the_run_that_the_flow_belongs_to() {
    let dir = scripts(&[("a", "# PROVIDE: a\necho why\nexit 3")]);
    let said = |command: &mut std::process::Command| text(&command.output().unwrap().stderr);
    let within = tempfile::tempdir().unwrap();
    let run = said(command(&["run", path(&dir)]).env("FARMHAND_RUN_DIR", path(&within)));
    assert!(!run.contains("the output of each task is in"), "{run}");
    let given =
        said(command(&["run", "--run-dir", path(&within), path(&dir)]).env_remove("FARMHAND_RUN_DIR"));
    let log = within.path().canonicalize().unwrap().join("log");
    assert!(
        given.contains(&format!("the output of each task is in {}", log.display())),
        "{given}"
    );
}

/// The freezer stands for a system call that does not return: the SIGKILL of the task stays pending.
#[test]
fn whoever_waits_for_a_killed_flow_is_woken_though_one_of_its_tasks_cannot_be_killed_yet() {
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| files.path().join(name);
    let body = "cd DIR\n[ -e a.pid ] && exit 0\necho $FARMHAND_DEPS >a.deps\necho $$ >a.new\nmv a.new a.pid\nsleep 60\n";
    let dir = scripts(&[("a", &body.replace("DIR", path(&files)))]);
    let run_dir = path(&files).to_owned() + "/run";
    let mut engine = command(&["run", "--run-dir", &run_dir, path(&dir)])
        .spawn()
        .unwrap();
    let bound = Duration::from_secs(20);
    let pid: i32 = eventually("the task runs", bound, || {
        fs::read_to_string(file("a.pid")).map_err(|e| e.to_string())
    })
    .trim()
    .parse()
    .unwrap();
    let frozen = Frozen::new(pid);
    engine.kill().unwrap();
    engine.wait().unwrap();
    let deps = fs::read_to_string(file("a.deps")).unwrap();
    let waited = flow(&["wait", "a", "--deps", deps.trim(), "--timeout", "20s"]);
    assert_eq!(waited.status.code(), Some(10), "{}", text(&waited.stderr));
    let resumed = command(&["run", "--resume", "--run-dir", &run_dir, path(&dir)])
        .spawn()
        .unwrap();
    drop(frozen);
    let resumed = resumed.wait_with_output().unwrap();
    assert_eq!(resumed.status.code(), Some(0));
}
