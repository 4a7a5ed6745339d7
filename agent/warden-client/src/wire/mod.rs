//! Every message between an agent and its warden.
//!
//! A new agent adopts the warden of an older release: after 0.1.0 fields are only added, with a default.
//! All deadlines are CLOCK_BOOTTIME nanoseconds; a field ending in `_ms` without `wall` is a duration.

pub mod frame;
mod hex_bytes;
mod order;
mod refusal;
mod report;

use std::path::PathBuf;

use farmhand_core::attempt::{Attempt, Signed};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use order::*;
pub use refusal::Refusal;
pub use report::*;

/// Raised when an older peer could misunderstand a message.
pub const PROTOCOL: u32 = 1;

/// One try of one run. The farm uses a pair twice only after a failover that lost the first claim; then not until
/// the first is gone from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptId {
    pub run_id: i64,
    pub attempt: i32,
}

impl AttemptId {
    /// As the database knows it.
    pub fn fenced(self, fence: i64) -> Attempt {
        Attempt {
            run_id: self.run_id,
            attempt: self.attempt,
            fence,
        }
    }
}

impl From<Attempt> for AttemptId {
    fn from(of: Attempt) -> Self {
        Self {
            run_id: of.run_id,
            attempt: of.attempt,
        }
    }
}

impl std::fmt::Display for AttemptId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.run_id, self.attempt)
    }
}

/// The one lease a warden serves in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    pub session: i64,
    /// The agent start that opened it.
    pub incarnation: Uuid,
}

/// Why the warden ended an attempt. The first reason stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillReason {
    /// `timeout_ms` or the hard end.
    Timeout,
    /// Silent for longer than `progress_timeout_ms`.
    Progress,
    Cancel,
    /// The run is no longer this session's.
    Fenced,
    /// The session's soft deadline passed.
    Lease,
    /// The warden was told to shut down.
    Shutdown,
    /// It used more memory than its limit, and the warden watched for that.
    LimitMemory,
    /// It had more processes than its limit, and the warden watched for that.
    LimitProcesses,
}

/// What an agent asks of a warden.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Who is there? Takes nothing over.
    Identify,
    /// From now on nothing is started for this connection but under [`super::Bounds`]: also when they are gone.
    Hold,
    /// Makes this connection the agent's; an older one is cut off first.
    Hello {
        protocol: u32,
        agent_pid: i32,
        /// Refused with [`Refusal::WrongLife`] when the warden serves another.
        expect: Option<Serving>,
        /// Refused with [`Refusal::WrongAddress`] when the warden serves another.
        address: String,
    },
    /// Moves the session's end forward; a move backward changes nothing and answers with what holds.
    SetDeadline {
        /// When the kernel kills the warden, in nanoseconds of CLOCK_BOOTTIME.
        deadline_ns: u64,
        /// When the warden sends SIGTERM to everything, on the same clock.
        soft_ns: u64,
    },
    Spawn(Box<SpawnRequest>),
    /// "This attempt never starts here", kept before the answer is sent.
    Forbid {
        id: AttemptId,
    },
    Kill {
        id: AttemptId,
        grace_ms: u64,
        reason: KillReason,
    },
    KillAll {
        grace_ms: u64,
        reason: KillReason,
    },
    /// The warden may forget an ended attempt. Its directory stays: the agent removes it.
    Ack {
        id: AttemptId,
    },
    /// Children's ends up to this number are written down; the warden may forget them.
    Heard {
        id: AttemptId,
        /// The number of the last of them that is written down.
        kills: u64,
    },
    /// Asks for the attempts behind this one in the order of their numbers, as many as fit into an answer.
    List {
        /// The last of the part before; none for the first part.
        after: Option<AttemptId>,
    },
    /// Definitions that the node has seen: their serials are noted where a trusted key signed them.
    Note {
        trusted_keys: PathBuf,
        signed: Vec<Signed>,
    },
    /// Spawns nothing more, kills everything, and leaves once all is reported.
    Shutdown {
        grace_ms: u64,
    },
}

/// What a warden answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    Identity(Identity),
    Deadline {
        /// When the kernel kills the warden, in nanoseconds of CLOCK_BOOTTIME.
        deadline_ns: u64,
        /// When it sends SIGTERM to everything, on the same clock.
        soft_ns: u64,
    },
    Spawned {
        pid: i32,
        /// It had been started by an earlier request.
        already: bool,
    },
    Forbidden,
    /// [`Request::Forbid`] came too late.
    AlreadyStarted {
        state: State,
    },
    /// It is forgotten or noted, as was asked; or it is being ended, and the end arrives as [`Event::Exited`].
    Acked,
    List(Listing),
}

/// The warden introduces itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    pub protocol: u32,
    pub serving: Serving,
    pub address: String,
    /// Counts hellos; 0 before the first.
    pub generation: u64,
    pub warden_pid: i32,
    /// Read anew for every answer: it changes when the reaper is gone.
    pub reaper_pid: i32,
    pub deadline_ns: u64,
    /// When it sends SIGTERM to everything, on the same clock.
    pub soft_ns: u64,
    /// Where attempts have a cgroup; `None`: processes are followed by descent only.
    pub cgroup: Option<String>,
    /// How many attempts it keeps that run or are not acknowledged.
    pub max_attempts: u32,
}

/// Every attempt that a warden knows, or a part of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Listing {
    /// Those that run and those whose end is not acknowledged.
    pub attempts: Vec<AttemptReport>,
    /// Highest attempt per run that must never start here; in the last part.
    pub tombstones: Vec<AttemptId>,
    /// There are others behind the last of these.
    pub more: bool,
}

impl Listing {
    /// The attempt with this id, if the warden knows it.
    pub fn find(&self, id: AttemptId) -> Option<&AttemptReport> {
        self.attempts.iter().find(|a| a.id == id)
    }
}

/// What a warden tells without being asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// Repeated to every new agent until acknowledged.
    Exited(Box<AttemptReport>),
    /// At most one a second per attempt, the latest.
    Progress {
        id: AttemptId,
        /// Its newest checkpoint; none when it has only shown signs of life.
        checkpoint: Option<String>,
        wall_ms: i64,
    },
    /// A child went over its limit. Told to every new agent until it says [`Request::Heard`].
    ChildKilled { id: AttemptId, kill: ChildKill },
    /// Processes of an attempt do not end by SIGKILL.
    Unkillable { id: AttemptId, pids: Vec<i32> },
    /// A newer agent took over. The last message on this connection.
    Superseded { generation: u64 },
}

/// A request with its number, which the reply carries too.
#[derive(Debug, Serialize, Deserialize)]
pub struct FromAgent {
    /// Counts the requests of one connection.
    pub seq: u64,
    pub request: Request,
}

/// A reply to the request of that number, or an event.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWarden {
    Reply {
        seq: u64,
        result: Result<Reply, Refusal>,
    },
    Event(Event),
}
