//! A cause: the kind of a problem and what it affects, as a short stable name.

use std::fmt;

use serde::Serialize;

crate::words! {
    /// What is wrong.
    CauseKind {
        /// A job whose instants no agent fires.
        Late = "late",
        /// A run whose lease is not as it should be.
        Stuck = "stuck",
        /// A job whose runs wait for too long.
        Waiting = "waiting",
        /// A node whose machine refuses to start runs.
        Blocked = "blocked",
        /// A node whose session another node ended.
        Lost = "lost",
        /// A node whose lease is over.
        Expired = "expired",
        /// A node that was lost and came back again and again.
        Flapping = "flapping",
        /// A run that takes longer than usual.
        Slow = "slow",
        /// A job whose last firing failed.
        Failing = "failing",
    }
}

/// What is wrong, and the job, run or node that it is wrong with: `failing:backup`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Cause {
    /// What sort of trouble it is.
    pub kind: CauseKind,
    /// Of the job, run or node that has it.
    pub name: String,
}

impl Cause {
    /// The cause of this kind that has this name: of a job, a run, a node.
    pub fn of(kind: CauseKind, name: impl ToString) -> Self {
        Self {
            kind,
            name: name.to_string(),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

impl From<Cause> for String {
    fn from(cause: Cause) -> Self {
        cause.to_string()
    }
}
