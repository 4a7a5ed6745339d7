//! Ends of children, and the group signals of tasks.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use farmhand_os::reap::{self, Peek};

/// A child that ended. Its number, and so its group's, stays taken until it is reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended(i32);

/// How it ended, and what it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Unknown for what a shell of ours waited for.
    pub cpu: Option<Duration>,
    /// Unknown when it is not more than this process's own.
    pub max_rss_bytes: Option<u64>,
}

impl Exit {
    /// All that a shell tells.
    pub(crate) fn with_code(code: i32) -> Self {
        Self {
            code: Some(code),
            ..Self::default()
        }
    }

    /// As a shell says it.
    pub(crate) fn shell_code(&self) -> i32 {
        self.code.or(self.signal.map(|s| 128 + s)).unwrap_or(1)
    }
}

impl Ended {
    /// The next child that has ended, if any.
    pub fn next() -> Option<Self> {
        match reap::peek() {
            Peek::Zombie(pid) => Some(Self(pid)),
            Peek::Childless | Peek::Nothing => None,
        }
    }

    /// Its number, its own until it is reaped.
    pub fn pid(self) -> i32 {
        self.0
    }

    /// Takes its status and what it used.
    pub fn reap(self) -> Exit {
        let Some(reaped) = reap::one(self.0) else {
            return Exit::default();
        };
        let (status, usage) = (ExitStatus::from_raw(reaped.status), reaped.usage);
        Exit {
            code: status.code(),
            signal: status.signal(),
            cpu: Some(Duration::from_micros(usage.user_us + usage.sys_us)),
            max_rss_bytes: Some(usage.max_rss_bytes).filter(|most| *most > 0),
        }
    }
}

/// Until when a process may run, and why it was asked to end.
#[derive(Debug)]
pub(crate) struct Limit<W> {
    pub at: Option<Instant>,
    pub over: Option<W>,
}

/// Between two SIGKILLs, should the kernel be slow with the first.
const AGAIN: Duration = Duration::from_secs(1);

impl<W> Limit<W> {
    /// A limit that nothing has exceeded yet; None for no time limit.
    pub(crate) fn new(at: Option<Instant>) -> Self {
        Self { at, over: None }
    }

    /// Signals the process's group; it is killed within `grace`.
    pub(crate) fn end(&mut self, leader: i32, signal: i32, why: W, grace: Duration) {
        let by = Instant::now() + grace;
        let sooner = self.at.filter(|at| self.over.is_some() && *at < by);
        self.at = Some(sooner.unwrap_or(by));
        self.over.get_or_insert(why);
        signal_group(leader, signal);
    }

    /// At its time, asks the process to end, then kills it.
    pub(crate) fn enforce(&mut self, leader: i32, why: W, grace: Duration) {
        let now = Instant::now();
        if self.at.is_none_or(|at| at > now) {
            return;
        }
        if self.over.is_some() {
            self.at = Some(now + AGAIN);
            signal_group(leader, libc::SIGKILL);
        } else {
            self.end(leader, libc::SIGTERM, why, grace);
        }
    }
}

pub(crate) fn signal_group(leader: i32, signal: i32) {
    // SAFETY: the number is that of an unreaped child, or of one whose end was heard of just now.
    unsafe { libc::kill(-leader, signal) };
}
