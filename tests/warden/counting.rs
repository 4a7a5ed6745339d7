//! What a command costs in system calls, which is the same on every machine.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};

use farmhand_core::definition::Isolation;

use super::harness::*;

const RUNS: i64 = 50;

/// How many calls a process made, by name, and all of its.
#[derive(Debug, Default)]
struct Calls {
    all: i64,
    named: HashMap<String, i64>,
}

impl Calls {
    fn of(&self, name: &str) -> i64 {
        self.named.get(name).copied().unwrap_or(0)
    }
}

/// Follows a process and its children until it is stopped.
struct Strace {
    process: Child,
    of: i32,
    log: std::path::PathBuf,
}

impl Strace {
    async fn attach(of: i32, dir: &std::path::Path) -> Strace {
        let log = dir.join("strace");
        let process = Command::new("strace")
            .args(["-f", "-qq", "-e", "signal=none", "-o"])
            .arg(&log)
            .args(["-p", &of.to_string()])
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace is installed: ./test does that");
        eventually("strace follows the warden", || {
            let status = std::fs::read_to_string(format!("/proc/{of}/status")).ok()?;
            let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
            (tracer.trim() != "0").then_some(())
        })
        .await;
        Strace { process, of, log }
    }

    /// Calls of the process itself, and of its children up to their `execve`.
    fn stop(mut self) -> (Calls, Calls) {
        // SAFETY: a signal for a child that has not been waited for.
        unsafe { libc::kill(self.process.id().cast_signed(), libc::SIGINT) };
        self.process.wait().unwrap();
        let text = std::fs::read_to_string(&self.log).unwrap();
        let (mut own, mut children) = (Calls::default(), Calls::default());
        let mut executed = Vec::new();
        for line in text.lines() {
            let (pid, call) = line.split_once(' ').unwrap();
            let (pid, call) = (pid.parse::<i32>().unwrap(), call.trim_start());
            let Some((name, _)) = call.split_once('(').filter(|_| !call.starts_with('<')) else {
                continue;
            };
            if pid != self.of && executed.contains(&pid) {
                continue;
            }
            if name == "execve" {
                executed.push(pid);
            }
            let calls = if pid == self.of { &mut own } else { &mut children };
            calls.all += 1;
            *calls.named.entry(name.to_owned()).or_default() += 1;
        }
        (own, children)
    }
}

#[tokio::test]
async fn a_command_costs_no_more_system_calls_than_it_did() {
    needs_root();
    let mut farmer = Farmer::new().await;
    let warden = farmer.client.identity().warden_pid;
    farmer.run(argv(id(1_000, 1), &["/bin/true"])).await;
    let strace = Strace::attach(warden, farmer.dir.path()).await;
    for run in 1..=RUNS {
        let (result, _) = farmer.run(argv(id(run, 1), &["/bin/true"])).await;
        assert!(result.succeeded(), "{result:?}");
        farmer.client.ack(id(run, 1), true).await.unwrap();
    }
    let (own, children) = strace.stop();
    assert_eq!(
        children.of("execve"),
        RUNS,
        "all of them were followed: {children:?}"
    );
    // A build with debug assertions asks before each close. A child resets the signals that whoever began all this ignores.
    let own_each = (own.all - own.of("fcntl")) / RUNS;
    let child_each = (children.all - children.of("rt_sigaction")) / RUNS;
    // Measured: 71 and 20. How often the loop wakes up depends on what arrives together.
    assert!(own_each <= 73, "{own_each} each: {own:?}");
    assert!(child_each <= 21, "{child_each} each: {children:?}");
    // Its timers are set for what changes, which is nothing here.
    assert!(own.of("timerfd_settime") < RUNS / 5, "{own:?}");
}

/// Without a memory controller the kernel tells the most that a command's process had, and counts the copy of the warden that it began as.
#[tokio::test]
async fn the_memory_of_the_warden_is_not_told_as_that_of_a_command() {
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let mut farmer = Farmer::with(|launch| launch.cgroup = false).await;
        let mut small = argv(id(1, 1), &["/bin/true"]);
        small.isolation = isolation;
        let (result, _) = farmer.run(small).await;
        assert_eq!(result.max_rss_bytes, 0, "unknown");
        let mut large = sh(id(2, 1), "x=$(head -c 100000000 /dev/zero | tr '\\0' x); true");
        large.isolation = isolation;
        let (result, _) = farmer.run(large).await;
        assert!(result.max_rss_bytes > 100_000_000, "{result:?}");
    }
}
