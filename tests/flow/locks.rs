//! `farmhand lock --local`, and the locks of tasks across flows.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use farmhand_tests::bin::farmhand;
use farmhand_tests::processes;
use farmhand_tests::wait::eventually;
use tempfile::TempDir;

use super::fixture::text;
use super::run::scripts;

const BOUND: Duration = Duration::from_secs(20);

/// A directory of locks, and files of what runs.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(farmhand());
        command.args(args).env("FARMHAND_LOCK_DIR", self.0.path());
        command.env("PLACE", self.0.path()).stdin(Stdio::null());
        command
    }

    /// `farmhand lock … --local -- sh -c script`.
    fn lock(&self, args: &[&str], script: &str) -> Command {
        let mut command = self.command(&["lock", "--local"]);
        command.args(args).args(["--", "sh", "-c", script]);
        command
    }

    fn code(&self, args: &[&str], script: &str) -> Option<i32> {
        self.lock(args, script).status().unwrap().code()
    }

    fn is_free(&self, name: &str) -> bool {
        self.code(&["-n", name], "true") == Some(0)
    }

    fn wait_for(&self, name: &str) -> String {
        eventually(name, BOUND, || {
            let text = fs::read_to_string(self.0.path().join(name)).unwrap_or_default();
            if text.is_empty() {
                Err("nothing".to_owned())
            } else {
                Ok(text)
            }
        })
    }

    fn wait_until_free(&self, name: &str) {
        eventually("the lock is free", BOUND, || {
            self.is_free(name).then_some(()).ok_or_else(|| "held".to_owned())
        });
    }

    /// Holds locks until it is killed; its command's own number.
    fn holder(&self, names: &[&str], file: &str) -> (Child, i32) {
        let script = format!("echo \"$$ $FARMHAND_SLOT\" > $PLACE/{file}; exec sleep 60");
        let holder = self.lock(names, &script).spawn().unwrap();
        let said = self.wait_for(file);
        (holder, said.split(' ').next().unwrap().trim().parse().unwrap())
    }
}

fn kill(pid: i32) {
    signal(pid, libc::SIGKILL);
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: a process that a test of this file started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn end(mut child: Child, command: i32) {
    kill(command);
    assert_eq!(child.wait().unwrap().code(), Some(137));
}

#[test]
fn the_exit_code_is_the_commands() {
    let place = Place::new();
    assert_eq!(place.code(&["a"], "exit 7"), Some(7));
    assert_eq!(place.code(&["a"], "kill -KILL $$"), Some(137));
    let missing = place.command(&["lock", "a", "--local", "--", "no-such-program"]);
    assert_eq!(status(missing), Some(127));
    let (mut holder, _) = place.holder(&["a"], "a");
    // SAFETY: a child that was not waited for.
    unsafe { libc::kill(holder.id().cast_signed(), libc::SIGTERM) };
    assert_eq!(holder.wait().unwrap().code(), Some(143), "SIGTERM is handed on");
}

fn status(mut command: Command) -> Option<i32> {
    command.status().unwrap().code()
}

#[test]
fn who_may_not_wait_gets_the_exit_code_of_flock() {
    let place = Place::new();
    let (holder, command) = place.holder(&["a", "b"], "holder");
    assert_eq!(place.code(&["-n", "b"], "true"), Some(1));
    assert_eq!(place.code(&["-n", "-E", "9", "c", "a"], "true"), Some(9));
    assert_eq!(place.code(&["-w", "0.1", "a"], "true"), Some(1));
    assert_eq!(place.code(&["--wait", "100ms", "a"], "true"), Some(1));
    assert!(place.is_free("c"), "none is kept when not all are free");
    let waiting = place.lock(&["-w", "20", "a"], "exit 3").spawn().unwrap();
    end(holder, command);
    assert_eq!(waiting.wait_with_output().unwrap().status.code(), Some(3));
}

/// What a command says beside its work changes nothing of it, where nobody can be told.
#[test]
fn a_message_that_cannot_be_written_leaves_the_exit_code_as_it_is() {
    let place = Place::new();
    let (holder, command) = place.holder(&["a"], "holder");
    let mut refused = place.lock(&["-n", "-E", "9", "a"], "true");
    refused.stderr(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    assert_eq!(status(refused), Some(9));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut refused = place.lock(&["-n", "-E", "9", "a"], "true");
    refused.stderr(writer);
    assert_eq!(status(refused), Some(9));
    end(holder, command);
}

#[test]
fn many_that_take_two_locks_in_different_orders_neither_meet_nor_wait_for_ever() {
    let place = Place::new();
    let script = "mkdir $PLACE/busy || echo met >> $PLACE/met; sleep 0.02; rmdir $PLACE/busy; echo done >> $PLACE/done";
    let both = |n: usize| {
        if n.is_multiple_of(2) {
            ["a", "b"]
        } else {
            ["b", "a"]
        }
    };
    let start = |n| place.lock(&both(n), script).spawn().unwrap();
    let children: Vec<Child> = (0..12).map(start).collect();
    eventually("all have had them", BOUND, || {
        let done = fs::read_to_string(place.0.path().join("done")).unwrap_or_default();
        (done.lines().count() == 12).then_some(()).ok_or(done)
    });
    for mut child in children {
        child.wait().unwrap();
    }
    assert!(!place.0.path().join("met").exists());
}

#[test]
fn seats_are_numbered_and_a_free_one_is_given_again() {
    let place = Place::new();
    let files = ["one", "two", "three"];
    let mut holders: Vec<_> = files.iter().map(|file| place.holder(&["a=3"], file)).collect();
    let slots = files.map(|file| place.wait_for(file).split(' ').nth(1).unwrap().trim().to_owned());
    assert_eq!(slots, ["1", "2", "3"]);
    assert_eq!(place.code(&["-n", "a=3"], "true"), Some(1));
    let (second, command) = holders.remove(1);
    end(second, command);
    assert_eq!(place.code(&["a=3"], "exit $FARMHAND_SLOT"), Some(2));
    for (child, command) in holders {
        end(child, command);
    }
}

#[test]
fn a_lock_is_held_for_as_long_as_its_command_lives_and_no_longer() {
    let place = Place::new();
    let (mut holder, command) = place.holder(&["a"], "command");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(!place.is_free("a"), "the command lives");
    kill(command);
    place.wait_until_free("a");
}

#[test]
fn without_a_directory_given_the_locks_are_the_users_on_this_node() {
    let name = format!("test-{}", std::process::id());
    let run = |args: &[&str]| {
        let mut command = Command::new(farmhand());
        command.args(["lock", &name, "--local"]).args(args);
        command.env_remove("FARMHAND_LOCK_DIR");
        command
    };
    // Another session, another environment: as cron has it.
    let mut holder = run(&["--", "sleep", "60"]);
    let mut holder = holder.env_clear().spawn().unwrap();
    eventually("held", BOUND, || {
        let refused = status(run(&["-n", "--", "true"])) == Some(1);
        refused.then_some(()).ok_or_else(|| "free".to_owned())
    });
    // SAFETY: a child that was not waited for.
    unsafe { libc::kill(holder.id().cast_signed(), libc::SIGTERM) };
    assert_eq!(holder.wait().unwrap().code(), Some(143));
}

#[test]
fn a_directory_of_locks_that_depends_on_where_a_command_runs_is_refused() {
    let place = Place::new();
    let mut relative = place.lock(&["a"], "true");
    relative.env("FARMHAND_LOCK_DIR", ".").current_dir(place.0.path());
    let out = relative.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out.stderr);
    assert!(said.contains("FARMHAND_LOCK_DIR begins with no /"), "{said}");
}

const TASK: &str =
    "# LOCK: disk\necho began >> $PLACE/began\nwhile ! [ -e $PLACE/go ]; do sleep 0.02; done\n";

fn flow(place: &Place, dir: &Path, more: &[&str]) -> Command {
    let mut command = place.command(&["flow", "run"]);
    command.args(more).arg(dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_tasks_lock_excludes_the_command_and_tasks_of_other_flows() {
    let place = Place::new();
    let dir = scripts(&[("a", TASK), ("b", "true\n")]);
    let first = flow(&place, dir.path(), &[]).spawn().unwrap();
    place.wait_for("began");
    assert!(!place.is_free("disk"), "a task holds it");
    let second = flow(&place, dir.path(), &[]).spawn().unwrap();
    let waiting = place
        .lock(&["disk"], "wc -l < $PLACE/began")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    fs::write(place.0.path().join("go"), "").unwrap();
    let outs: Vec<Output> = [first, second, waiting]
        .map(|child| child.wait_with_output().unwrap())
        .into();
    assert!(outs.iter().all(|out| out.status.success()), "{outs:?}");
    assert!(place.is_free("disk"));
}

#[test]
fn a_task_waits_for_a_lock_that_a_command_holds_and_says_so() {
    let place = Place::new();
    let dir = scripts(&[("a", TASK), ("b", "echo b > $PLACE/b\n")]);
    fs::write(place.0.path().join("go"), "").unwrap();
    let (holder, command) = place.holder(&["disk"], "holder");
    let flow = flow(&place, dir.path(), &[]).spawn().unwrap();
    place.wait_for("b");
    end(holder, command);
    let out = flow.wait_with_output().unwrap();
    let said = text(&out.stderr);
    assert!(out.status.success(), "{said}");
    assert!(
        said.contains("a waits for locks that others hold: disk"),
        "{said}"
    );
}

/// The guardian holds it until the task is dead.
#[test]
fn a_killed_engines_locks_are_free_only_when_its_tasks_are_gone() {
    let place = Place::new();
    let task =
        "# LOCK: disk\nexec 9> $PLACE/alive\nflock 9\necho $$ > $PLACE/began\nwhile :; do sleep 0.01; done\n";
    let dir = scripts(&[("a", task)]);
    let mut engine = flow(&place, dir.path(), &[]).spawn().unwrap();
    place.wait_for("began");
    let next = place
        .lock(&["disk"], "flock -n $PLACE/alive true")
        .spawn()
        .unwrap();
    let own = engine.id().cast_signed();
    let guardian = processes::all()
        .into_iter()
        .find(|p| p.parent == own && p.command.contains("flow run"))
        .unwrap();
    signal(guardian.pid, libc::SIGSTOP);
    engine.kill().unwrap();
    engine.wait().unwrap();
    assert!(!place.is_free("disk"), "the task lives");
    signal(guardian.pid, libc::SIGCONT);
    let code = next.wait_with_output().unwrap().status.code();
    assert_eq!(code, Some(0), "1: the task still lived");
}
