//! What a warden refuses.

use serde::{Deserialize, Serialize};

use super::{AttemptId, PROTOCOL, Serving};

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
