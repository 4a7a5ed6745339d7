//! Once per episode: from what happens to a job to what people are told.
//!
//! A job fails from its first failed run until its next success, and is late from a missed deadline until its next
//! success. Retries and takeovers are no failures; a run that ends by being cancelled or skipped is neither.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Message, Topic};
use crate::usual::Exceeded;

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

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tell {
    pub topic: Topic,
    /// The same for whoever finds out the same: a target gets it once.
    pub key: String,
    pub message: Message,
}

impl State {
    /// Whether nothing is the matter.
    pub fn is_calm(&self) -> bool {
        self.failing_since.is_none() && self.late_since.is_none()
    }

    /// What `job` is in after `happening`, and what is to be told of it.
    #[must_use]
    pub fn next(mut self, job: &str, happening: &Happening) -> (Self, Option<Tell>) {
        let tell = match happening {
            Happening::Failed(end) => self.failed(job, end),
            Happening::Succeeded(end) => self.succeeded(job, end),
            Happening::Lost(lost) => Some(Tell {
                topic: Topic::Takeover,
                key: format!("takeover/{}", lost.firing.unwrap_or(lost.run_id)),
                message: Message::takeover(job, lost),
            }),
            Happening::Slow(slow) => Some(Tell {
                topic: Topic::Slow,
                key: format!("slow/{}", slow.run_id),
                message: Message::slow(job, slow),
            }),
            // A later one is missed after it was defined anew, or resumed.
            Happening::MissedDeadline { deadline, .. }
                if self.late_since.is_some_and(|told| *deadline <= told) =>
            {
                None
            }
            Happening::MissedDeadline {
                deadline,
                last_success,
            } => {
                self.late_since = Some(*deadline);
                Some(Tell {
                    topic: Topic::Deadline,
                    key: format!("deadline/{job}/{deadline}"),
                    message: Message::deadline(job, *deadline, *last_success),
                })
            }
        };
        (self, tell)
    }

    fn failed(&mut self, job: &str, end: &End) -> Option<Tell> {
        self.failures += 1;
        if self.failing_since.is_some() {
            return None;
        }
        self.failing_since = Some(end.at);
        self.first_run = Some(end.run_id);
        self.failures = 1;
        Some(Tell {
            topic: Topic::Failure,
            key: format!("failure/{job}/{}", end.run_id),
            message: Message::failure(job, end),
        })
    }

    fn succeeded(&mut self, job: &str, end: &End) -> Option<Tell> {
        let before = std::mem::take(self);
        (!before.is_calm()).then(|| Tell {
            topic: Topic::Recovery,
            key: format!("recovery/{job}/{}", end.run_id),
            message: Message::recovery(job, end, &before),
        })
    }
}
