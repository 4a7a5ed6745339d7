//! What is told about an attempt: its state while it lives, its result once it ended.

use std::time::Duration;

use farmhand_core::document::{duration_text, size_text};
use serde::{Deserialize, Serialize};

use super::{AttemptId, KillReason};

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The command or processes that it started live.
    Running,
    /// SIGTERM was sent.
    Terminating,
    /// SIGKILL was sent.
    Killing,
    /// Nothing of it lives; its result is known.
    Ended,
}

/// An attempt as its warden knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttemptReport {
    pub id: AttemptId,
    pub fence: i64,
    pub state: State,
    /// Killed, but the kernel cannot end it: stays held, and is an alert.
    pub unkillable: bool,
    pub pid: i32,
    pub started_wall_ms: i64,
    pub checkpoint: Option<String>,
    /// Not confirmed by any agent yet.
    pub child_kills: Vec<ChildKill>,
    /// As it was given, in a listing; null in a notice.
    pub extra: serde_json::Value,
    pub result: Option<AttemptResult>,
}

/// How the command's own process ended, or why it never began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Ending {
    Exited { code: i32 },
    Signaled { signal: i32 },
    StartFailed(StartFailure),
}

/// The command never ran. `exit_code` is what a shell would have said: 127 not found, 126 otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFailure {
    pub stage: Stage,
    /// The program, directory or user concerned.
    pub subject: String,
    /// 0 when no system call failed (no such user).
    pub errno: i32,
    pub message: String,
    pub exit_code: i32,
}

/// What was being prepared when a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Cgroup,
    Isolation,
    NoSuchUser,
    /// The user exists, but this warden may not become it.
    User,
    /// The node's policy does not let jobs run as this user, or run this.
    Policy,
    /// No trusted key vouches for the definition.
    Signature,
    /// A secret that the job names cannot be had here.
    Secret,
    RunDir,
    Cwd,
    Limits,
    Nice,
    Descriptors,
    Exec,
}

/// How an attempt ended, and what it used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptResult {
    pub ending: Ending,
    /// Set when the warden ended it, whatever status it then left.
    pub killed: Option<KillReason>,
    pub started_wall_ms: i64,
    pub started_ns: u64,
    pub ended_ns: u64,
    /// Of the whole tree where there is a cgroup, else of what the command waited for.
    pub user_us: u64,
    /// The same, spent in the kernel.
    pub sys_us: u64,
    /// Of the largest process, 0 when it was smaller than the warden's; of the whole tree where the memory controller is available.
    pub max_rss_bytes: u64,
    /// Processes that outlived the main one and were ended; in a PID namespace 1, however many they were.
    pub leftovers: u32,
    pub checkpoint: Option<String>,
    /// How much it wrote, and what of that was kept.
    pub output: OutputStats,
}

impl AttemptResult {
    /// From its start to the end of its whole process tree.
    pub fn ran(&self) -> Duration {
        Duration::from_nanos(self.ended_ns.saturating_sub(self.started_ns))
    }

    /// What is said of a command that ended by itself while others of its processes went on: they were ended with it.
    pub fn left_behind(&self) -> Option<&'static str> {
        let by_itself = self.killed.is_none() && !matches!(self.ending, Ending::StartFailed(_));
        (by_itself && self.leftovers > 0).then_some("what it left in the background was ended with it")
    }

    /// Whether it was ended because it took too long.
    pub fn timed_out(&self) -> bool {
        self.killed == Some(KillReason::Timeout)
    }

    /// As a shell would number it; `None` when a signal ended it.
    pub fn exit_code(&self) -> Option<i32> {
        match &self.ending {
            Ending::Exited { code } => Some(*code),
            Ending::Signaled { .. } => None,
            Ending::StartFailed(failure) => Some(failure.exit_code),
        }
    }

    /// The signal that ended it, if one did.
    pub fn signal(&self) -> Option<i32> {
        match self.ending {
            Ending::Signaled { signal, .. } => Some(signal),
            _ => None,
        }
    }

    /// Exit 0, and by itself.
    pub fn succeeded(&self) -> bool {
        self.killed.is_none() && self.ending == Ending::Exited { code: 0 }
    }
}

/// How much output there was, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputStats {
    /// Everything the command wrote; also the position after its last byte.
    pub bytes: u64,
    /// Of these, not in the local files: over the cap, or not writable.
    pub dropped_bytes: u64,
    /// The first failure to write a local file.
    pub error: Option<String>,
}

/// A child that was ended because it went over a limit of its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildKill {
    /// Counts the attempt's kills, from 1.
    pub number: u64,
    pub name: String,
    pub pid: i32,
    pub why: KillWhy,
    pub wall_ms: i64,
}

/// Which limit a child exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum KillWhy {
    Age { ms: u64, most_ms: u64 },
    Memory { bytes: u64, most: u64 },
}

impl std::fmt::Display for ChildKill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, pid) = (&self.name, self.pid);
        let span = |ms: u64| duration_text(Duration::from_millis(ms));
        match self.why {
            KillWhy::Age { ms, most_ms } => {
                let (age, most) = (span(ms), span(most_ms));
                write!(
                    f,
                    "ended {name} (process {pid}): it is {age} old, {most} is its limit"
                )
            }
            KillWhy::Memory { bytes, most } => {
                let most = size_text(most);
                write!(
                    f,
                    "ended {name} (process {pid}): it uses {bytes} bytes, {most} is its limit"
                )
            }
        }
    }
}
