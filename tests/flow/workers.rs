//! `farmhand workers`: rounds, stopping, and what a killed one leaves behind.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use farmhand_tests::bin::farmhand;
use farmhand_tests::processes;
use farmhand_tests::wait::eventually;
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(20);

/// `farmhand workers` with a directory for its workers, in `$PLACE`, and for what it says.
struct Workers {
    place: TempDir,
    supervisor: Child,
}

impl Workers {
    fn start(args: &[&str], script: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let said = |name: &str| fs::File::create(place.path().join(name)).unwrap();
        let supervisor = Command::new(farmhand())
            .arg("workers")
            .args(args)
            .args(["--", "sh", "-c", script, "worker", "{instance}"])
            .env("PLACE", place.path())
            .stdin(Stdio::null())
            .stdout(said("stdout"))
            .stderr(said("stderr"))
            .spawn()
            .unwrap();
        Self { place, supervisor }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn count(&self, name: &str, text: &str) -> usize {
        self.read(name).lines().filter(|line| line.contains(text)).count()
    }

    fn wait_for(&self, name: &str, lines: usize, text: &str) {
        eventually(&format!("{lines} times {text:?}"), BOUND, || {
            let found = self.count(name, text) >= lines;
            found.then_some(()).ok_or_else(|| self.read(name))
        });
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a child of this process that it has not waited for.
        assert_eq!(
            unsafe { libc::kill(self.supervisor.id().cast_signed(), signal) },
            0
        );
    }

    fn end(&mut self) -> ExitStatus {
        eventually("the supervisor ends", BOUND, || {
            let ended = self.supervisor.try_wait().unwrap();
            ended.ok_or_else(|| fs::read_to_string(self.place.path().join("stderr")).unwrap())
        })
    }

    /// Processes that were started with this place in their environment, and those without one whose command names it.
    fn living(&self) -> Vec<processes::Process> {
        let mark = format!("PLACE={}", self.place.path().display());
        let own = self.supervisor.id().cast_signed();
        let mut found = processes::all();
        found.retain(|p| {
            let ours = p.environment.contains(&mark) || p.command.contains(name(self.place.path()));
            ours && p.pid != own && p.state != 'Z' && !p.command.contains("farmhand workers")
        });
        found
    }

    fn wait_until_none_lives(&self) {
        eventually("no worker is left", BOUND, || {
            let living = self.living();
            living
                .is_empty()
                .then_some(())
                .ok_or_else(|| format!("{living:?}"))
        });
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Ends the supervisor and expects the given exit code.
fn stop(mut workers: Workers, signal: i32, code: i32) -> Workers {
    workers.signal(signal);
    let status = workers.end();
    assert_eq!(
        (status.code(), status.signal()),
        (Some(code), None),
        "{}",
        workers.read("stderr")
    );
    workers.wait_until_none_lives();
    workers
}

#[test]
fn each_exit_code_is_followed_as_in_a_continuous_job() {
    let workers = Workers::start(
        &["-n", "3", "--idle-exit", "250", "--idle-delay", "1h"],
        "echo round $1 $FARMHAND_INSTANCE of $FARMHAND_INSTANCES; sleep 0.05
         case $1 in 0) exit 0 ;; 1) exit 250 ;; *) exit 3 ;; esac",
    );
    workers.wait_for("stdout", 10, "round 0 0 of 3");
    workers.wait_for("stdout", 2, "round 2 2 of 3");
    let workers = stop(workers, libc::SIGTERM, 0);
    let rounds = workers.count("stdout", "round 0");
    // The last round was not followed by another.
    assert_eq!(
        workers.count("stderr", "worker-0 ended: exit code 0; again at once"),
        rounds - 1
    );
    assert_eq!(workers.count("stdout", "round 1"), 1, "an idle worker sleeps");
    assert_eq!(
        workers.count("stderr", "worker-1 ended: exit code 250; again in 1h"),
        1
    );
    // Half of a second is certain, so that it had at most 2 failures in a row in the time of 10 rounds.
    let failures = workers.count("stderr", "worker-2 failed: exit code 3; again in");
    assert!(failures < rounds, "{}", workers.read("stderr"));
}

#[test]
fn sigterm_lets_what_runs_come_to_its_end_and_starts_nothing() {
    let workers = Workers::start(
        &["-n", "2"],
        "echo began; while ! [ -e $PLACE/go ]; do sleep 0.02; done; echo ended",
    );
    workers.wait_for("stdout", 2, "began");
    workers.signal(libc::SIGTERM);
    workers.wait_for("stderr", 1, "stopping: 2 still run, for 30s at most");
    fs::write(workers.file("go"), "").unwrap();
    let workers = stop_after(workers, 0);
    assert_eq!(workers.count("stdout", "ended"), 2);
    assert_eq!(workers.count("stdout", "began"), 2);
}

fn stop_after(mut workers: Workers, code: i32) -> Workers {
    assert_eq!(workers.end().code(), Some(code), "{}", workers.read("stderr"));
    workers.wait_until_none_lives();
    workers
}

#[test]
fn who_does_not_end_in_time_gets_sigterm_and_then_sigkill() {
    let workers = Workers::start(
        &["--stop-timeout", "100ms", "--grace", "3s"],
        "trap 'echo asked' TERM; echo began; while :; do sleep 0.02; done",
    );
    workers.wait_for("stdout", 1, "began");
    let workers = stop(workers, libc::SIGTERM, 130);
    assert_eq!(workers.count("stdout", "asked"), 1);
}

#[test]
fn sigquit_kills() {
    let workers = Workers::start(
        &["-n", "4", "--stop-timeout", "1h", "--grace", "1h"],
        "trap 'echo asked' TERM; echo began; while :; do sleep 0.02; done",
    );
    workers.wait_for("stdout", 4, "began");
    workers.signal(libc::SIGTERM);
    let workers = stop(workers, libc::SIGQUIT, 130);
    assert_eq!(workers.count("stdout", "asked"), 0);
}

#[test]
fn with_json_events_go_to_stdout_and_output_to_stderr() {
    let workers = Workers::start(
        &["--json", "--idle-exit", "7", "--idle-delay", "1h"],
        "echo hello; exit 7",
    );
    workers.wait_for("stdout", 1, "\"event\":\"retry\"");
    let workers = stop(workers, libc::SIGTERM, 0);
    assert_eq!(workers.count("stderr", "hello"), 1);
    let events: Vec<serde_json::Value> = workers
        .read("stdout")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = events.last().unwrap();
    assert_eq!(
        (&last["task"], &last["exit_code"], &last["failed"]),
        (&"worker-0".into(), &7.into(), &false.into())
    );
}

#[test]
fn what_a_round_left_running_ends_with_it() {
    let workers = Workers::start(
        &["--idle-exit", "250", "--idle-delay", "1h"],
        "sleep 3600 & echo $! > $PLACE/left; exit 250",
    );
    workers.wait_for("stderr", 1, "again in 1h");
    workers.wait_until_none_lives();
    stop(workers, libc::SIGTERM, 0);
}

/// The second worker clears its environment and leaves its session, as sudo does.
#[test]
fn no_worker_outlives_a_supervisor_that_is_killed() {
    let mut workers = Workers::start(
        &["-n", "2"],
        "trap '' TERM HUP; echo began
         [ $1 = 0 ] || env -i setsid -w sh -c \"echo cleared; while :; do sleep 0.02; done # $PLACE\"
         while :; do sleep 0.02; done",
    );
    workers.wait_for("stdout", 2, "began");
    workers.wait_for("stdout", 1, "cleared");
    assert!(workers.living().len() >= 3);
    workers.supervisor.kill().unwrap();
    workers.supervisor.wait().unwrap();
    workers.wait_until_none_lives();
}

#[test]
fn a_command_that_does_not_exist_is_said_and_tried_again() {
    let place = tempfile::tempdir().unwrap();
    let said = fs::File::create(place.path().join("stderr")).unwrap();
    let supervisor = Command::new(farmhand())
        .args(["workers", "--", "no-such-program"])
        .stdin(Stdio::null())
        .stderr(said)
        .spawn()
        .unwrap();
    let workers = Workers { place, supervisor };
    workers.wait_for("stderr", 2, "worker-0 failed: no-such-program cannot be executed");
    stop(workers, libc::SIGTERM, 0);
}

/// Pauses end while others are being started.
#[test]
fn no_worker_whose_pause_is_over_waits_for_the_end_of_another() {
    for _ in 0..4 {
        let workers = Workers::start(
            &["-n", "32", "--idle-exit", "250", "--idle-delay", "200ms"],
            "[ -e \"$PLACE/first-$1\" ] || { : > \"$PLACE/first-$1\"; exit 250; }; echo again; exec sleep 600",
        );
        workers.wait_for("stdout", 32, "again");
    }
}
