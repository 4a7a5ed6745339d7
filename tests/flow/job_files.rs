//! Flows of job files, without a database.

use std::fs;
use std::process::{Command, Output, Stdio};

use farmhand_tests::bin::farmhand;
use tempfile::TempDir;

use super::fixture::{path, text};

fn flow(place: &TempDir, file: &str, args: &[&str]) -> Output {
    fs::write(place.path().join("jobs.toml"), file.replace("DIR", path(place))).unwrap();
    let mut command = Command::new(farmhand());
    command.args(["flow", args[0], "jobs.toml"]).args(&args[1..]);
    command.current_dir(place.path()).stdin(Stdio::null());
    command
        .env_remove("DATABASE_URL")
        .env("FARMHAND_LOCK_DIR", path(place));
    command.output().unwrap()
}

fn good(out: &Output) {
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

/// `disk` and `tape` share a lock, `mail` and `disk` conflict, `mail` comes after what fails, `shy` succeeds at the second
/// try, `slow` runs into its time-out.
const ALL: &str = "
[job.nightly]
schedule = '0 2 * * *'
user = 'backup'
env = { PLACE = 'DIR', WHO = 'job' }
[job.nightly.task.disk]
command = 'mkdir $PLACE/held && sleep 0.2 && rmdir $PLACE/held'
locks = ['media']
[job.nightly.task.tape]
command = 'mkdir $PLACE/held && sleep 0.2 && rmdir $PLACE/held'
locks = ['media']
[job.nightly.task.mail]
command = 'mkdir $PLACE/held && rmdir $PLACE/held && echo mail $WHO'
after = ['bad']
conflicts = ['disk', 'tape']
env = { WHO = 'task' }
[job.nightly.task.bad]
command = ['false']
[job.nightly.task.hurt]
command = ['echo', 'never']
requires = ['bad']
[job.nightly.task.shy]
command = '[ -e $PLACE/tried ] || { touch $PLACE/tried; exit 1; }'
retry = { max = 1, base = '10ms' }
[job.nightly.task.slow]
command = ['sleep', '60']
timeout = '200ms'
[job.other]
command = ['true']
";

#[test]
fn tasks_without_an_agent_are_the_only_instance_and_due_now() {
    let place = tempfile::tempdir().unwrap();
    let job = "[job.f.task.a]\ncommand = ['printf', '%s|', 'i={instance}', '{slot}', '{due}', '{{due}}', '${slot}', '{since}']\n";
    let out = flow(&place, job, &["run"]);
    good(&out);
    let said = text(&out.stdout);
    let rest = said.split("i=0|0|2").nth(1).unwrap_or_else(|| panic!("{said}"));
    assert!(rest.contains("Z|{due}|${slot}|{since}|"), "{said}");
}

#[test]
fn a_flow_of_a_job_file_runs_without_a_database() {
    let place = tempfile::tempdir().unwrap();
    let out = flow(&place, ALL, &["run"]);
    let (said, err) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(said.contains("mail | mail task"), "{said}{err}");
    assert!(!said.contains("never"), "{said}");
    assert!(
        err.contains("4 succeeded, 1 failed, 1 timed out, 1 skipped"),
        "{err}"
    );
    assert!(
        err.contains("warning: `user` of job nightly does not count here"),
        "{err}"
    );
    let out = flow(&place, ALL, &["plan"]);
    good(&out);
    assert!(text(&out.stdout).contains("hurt"), "{}", text(&out.stdout));
    let locks = "locks, of this user on the node that runs it: disk (media), tape (media)";
    assert!(text(&out.stderr).contains(locks), "{}", text(&out.stderr));
}

#[test]
fn a_lock_of_a_task_in_a_job_file_is_that_of_the_command() {
    let place = tempfile::tempdir().unwrap();
    let file = "[job.a.task.t]\nlocks = ['disk']\ncommand = ['FARMHAND', 'lock', '-n', 'disk', '--local', '--', 'true']\n";
    let file = file.replace("FARMHAND", &farmhand().display().to_string());
    let out = flow(&place, &file, &["run", "--json"]);
    assert!(text(&out.stdout).contains("\"exit_code\":1"), "{out:?}");
    good(&flow(&place, &file.replace("locks = ['disk']", ""), &["run"]));
}

#[test]
fn of_several_flows_one_is_chosen() {
    let place = tempfile::tempdir().unwrap();
    let file = "[job.a.task.x]\ncommand = ['echo', 'one']\n[job.b]\nflow = 'DIR/scripts'\n[job.c]\ncommand = ['true']\n";
    fs::create_dir(place.path().join("scripts")).unwrap();
    super::fixture::write_script(&place.path().join("scripts"), "s", "#!/bin/sh\necho two $1\n");
    let out = flow(&place, file, &["run"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("has several flows: a, b"), "{out:?}");
    for (job, said) in [("a", "x | one"), ("b", "s | two start")] {
        let out = flow(&place, file, &["run", "--job", job]);
        good(&out);
        assert!(text(&out.stdout).contains(said), "{out:?}");
    }
    let out = flow(&place, file, &["run", "--job", "c"]);
    assert!(
        text(&out.stderr).contains("job `c` of jobs.toml is not a flow"),
        "{out:?}"
    );
    let out = flow(&place, file, &["run", "--job", "nothing"]);
    assert_eq!(out.status.code(), Some(3), "{out:?}");
}

#[test]
fn mistakes_of_a_job_file_are_told_with_their_place_and_nothing_runs() {
    let place = tempfile::tempdir().unwrap();
    let file = "[job.a.task.x]\ncommand = ['touch', 'DIR/ran']\nreqires = ['y']\n";
    let out = flow(&place, file, &["run"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("jobs.toml:3:1:"), "{out:?}");
    assert!(!place.path().join("ran").exists());
}
