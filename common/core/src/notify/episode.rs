//! Once per episode: from what happens to a job to what people are told.
//!
//! A job fails from its first failed run until its next success, and is late from a missed deadline until its next
//! success. Retries and takeovers are no failures; a run that ends by being cancelled or skipped is neither.

use super::happening::{End, Happening, State};
use super::message::Message;
use super::topic::Topic;

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
