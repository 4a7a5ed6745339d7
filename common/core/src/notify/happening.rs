//! What happens to a job, and what is going on with it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::durations::Exceeded;

/// What is going on with a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Since when it fails: the end of the first failed run.
    pub failing_since: Option<Timestamp>,
    /// The first run that failed.
    pub first_run: Option<i64>,
    /// Failed runs since then.
    #[serde(default)]
    pub failures: i64,
    /// The last deadline that it missed.
    pub late_since: Option<Timestamp>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub run_id: i64,
    pub attempt: i32,
    /// `succeeded`, `failed`, `timed_out` or `lost`.
    pub outcome: String,
    /// Why it ended so, if that is known.
    pub reason: Option<String>,
    /// The command's, if it exited.
    pub exit_code: Option<i32>,
    /// What ended the command, if a signal did.
    pub signal: Option<i32>,
    pub node: Option<String>,
    /// The instant that the run is for.
    pub due: Option<Timestamp>,
    pub at: Timestamp,
}

/// An attempt whose node or warden was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    pub run_id: i64,
    /// The runs made together with it are one takeover.
    pub firing: Option<i64>,
    pub attempt: i32,
    pub node: String,
    /// Why it was free to be taken over.
    pub reason: Option<String>,
    /// The instant that the run is for.
    pub due: Option<Timestamp>,
    pub at: Timestamp,
}

/// A run that takes longer than usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    pub run_id: i64,
    pub attempt: i32,
    pub node: String,
    /// The instant that the run is for.
    pub due: Option<Timestamp>,
    /// What it was measured by; None when it has ended since.
    pub exceeded: Option<Exceeded>,
}

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    Failed(End),
    /// Of runs that were made together, the last, when all have succeeded.
    Succeeded(End),
    /// An attempt was lost.
    Lost(Lost),
    /// A run takes longer than usual.
    Slow(Slow),
    /// A job has not succeeded in time.
    MissedDeadline {
        deadline: Timestamp,
        last_success: Option<Timestamp>,
    },
}
