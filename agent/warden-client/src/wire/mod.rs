//! Every message between an agent and its warden.
//!
//! A new agent adopts the warden of an older release, so fields are only ever added, with a default.
//! All deadlines are CLOCK_BOOTTIME nanoseconds; a field ending in `_ms` without `wall` is a duration.

pub mod frame;
mod hex_bytes;
mod order;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use farmhand_core::claimed::{Attempt, Signed};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use order::*;
pub use report::*;

/// Raised when an older peer could misunderstand a message.
pub const PROTOCOL: u32 = 1;

/// Which of an agent's wardens. Jobs with `hold` live under one whose deadline is that much later; one for
/// each length of hold, because a warden has one kernel timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Main,
    Hold { ms: u64 },
}

impl Kind {
    /// The warden under which an attempt of a job with this `hold` lives.
    pub fn of(hold: Duration) -> Kind {
        match u64::try_from(hold.as_millis()).unwrap_or(u64::MAX) {
            0 => Kind::Main,
            ms => Kind::Hold { ms },
        }
    }

    /// How much longer than the lease this warden may live.
    pub fn hold(self) -> Duration {
        match self {
            Kind::Main => Duration::ZERO,
            Kind::Hold { ms } => Duration::from_millis(ms),
        }
    }

    /// `main`, or `hold-` and the milliseconds; read back by [`Kind::parse`].
    pub fn name(self) -> String {
        match self {
            Kind::Main => "main".to_owned(),
            Kind::Hold { ms } => format!("hold-{ms}"),
        }
    }

    /// The kind with this [`Kind::name`].
    pub fn parse(name: &str) -> Option<Kind> {
        match name.strip_prefix("hold-") {
            Some(ms) => Some(Kind::Hold {
                ms: ms.parse().ok().filter(|ms| *ms > 0)?,
            }),
            None => (name == "main").then_some(Kind::Main),
        }
    }
}

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
    Superseded,
    /// The session's soft deadline passed.
    Lease,
    Shutdown,
    LimitMemory,
    LimitProcesses,
}

/// What an agent asks of a warden.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Who is there? Takes nothing over.
    Identify,
    /// From now on nothing is started for this connection but under [`super::Bounds`]: also when they are gone. Only to a
    /// warden whose [`Identity::holds`] says that it knows this.
    Hold,
    /// Makes this connection the agent's; an older one is cut off first.
    Hello {
        protocol: u32,
        agent_pid: i32,
        /// Refused with [`Refusal::WrongLife`] when the warden serves another.
        expect: Option<Serving>,
        /// Refused with [`Refusal::WrongAddress`] when the warden serves another. An older agent does not say it.
        #[serde(default)]
        address: Option<String>,
    },
    /// Moves the session's end forward; a move backward changes nothing and answers with what holds.
    SetDeadline {
        deadline_ns: u64,
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
        kills: u64,
    },
    List,
    /// Definitions that the node has seen: their serials are noted where a trusted key signed them. Only to a warden
    /// whose [`Identity::notes`] says that it knows this.
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
    /// What holds now.
    Deadline {
        deadline_ns: u64,
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
    /// The kill is under way; the end arrives as [`Event::Exited`].
    Killing {
        attempts: u32,
    },
    Acked,
    List(Listing),
    ShuttingDown,
}

/// Why a warden does not do what it was asked.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Refusal {
    #[error("say hello first")]
    NoHello,
    #[error("the warden speaks protocol {warden}, this agent {PROTOCOL}")]
    Protocol { warden: u32 },
    #[error("the warden serves session {} ({})", serving.session, serving.incarnation)]
    WrongLife { serving: Serving },
    #[error("the warden serves session {} of {address}", serving.session)]
    WrongAddress { address: String, serving: Serving },
    #[error("attempt {id} must never start here")]
    Tombstone { id: AttemptId },
    #[error("attempt {alive} of the same run is still alive here")]
    OlderAlive { alive: AttemptId },
    #[error("the warden already has {max} {what}")]
    Full { what: String, max: u32 },
    #[error("the session's end is near")]
    Ending,
    #[error("the warden is shutting down")]
    ShuttingDown,
    #[error("attempt {id} is unknown here")]
    Unknown { id: AttemptId },
    #[error("attempt {id} is still running")]
    Running { id: AttemptId },
    #[error("{why}")]
    Invalid { why: String },
    /// The machine refused: no more processes, descriptors, memory.
    #[error("cannot start: {why}")]
    Machine { why: String },
}

/// The warden introduces itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    pub protocol: u32,
    pub version: String,
    pub kind: Kind,
    pub serving: Serving,
    /// Of the node whose lease that is; an older warden does not know it.
    #[serde(default)]
    pub address: Option<String>,
    /// Counts hellos; 0 before the first.
    pub generation: u64,
    pub warden_pid: i32,
    /// Read anew for every answer: it changes when the reaper is gone.
    pub reaper_pid: i32,
    pub deadline_ns: u64,
    pub soft_ns: u64,
    /// Where attempts have a cgroup; `None`: processes are followed by descent only.
    pub cgroup: Option<String>,
    pub running: u32,
    pub ended: u32,
    pub shutting_down: bool,
    /// It holds every request to what root wrote down for an agent without rights, and takes [`Request::Hold`]. An older one
    /// does not know of that.
    #[serde(default)]
    pub holds: bool,
    /// Whether it takes [`Request::Note`].
    #[serde(default)]
    pub notes: bool,
}

/// Every attempt that a warden knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listing {
    pub attempts: Vec<AttemptReport>,
    /// Highest attempt per run that must never start here.
    pub tombstones: Vec<AttemptId>,
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
        checkpoint: Option<String>,
        wall_ms: i64,
    },
    /// A child went over its limit. Told to every new agent until it says [`Request::Heard`].
    ChildKilled {
        id: AttemptId,
        kill: ChildKill,
    },
    Unkillable {
        id: AttemptId,
        pids: Vec<i32>,
    },
    /// A newer agent took over. The last message on this connection.
    Superseded {
        generation: u64,
    },
}

/// A request with its number, which the reply carries too.
#[derive(Debug, Serialize, Deserialize)]
pub struct FromAgent {
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
