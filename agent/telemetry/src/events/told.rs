//! What became of telling people: as a log line, metrics and rows.

use std::fmt;

use farmhand_core::event::EventKind;
use farmhand_core::notify::{Channel, Topic};
use farmhand_store::Severity;
use farmhand_store::events::Event as EventRow;
use serde_json::json;

use crate::metrics::Metrics;

/// One message or sign of life.
#[derive(Clone, Debug)]
pub enum Told {
    /// A message was taken by the service of its target.
    Delivered {
        target: String,
        channel: Channel,
        topic: Topic,
        /// The job that it is about; none when it is about no single job.
        job_id: Option<String>,
        complaint: Option<String>,
    },
    /// A message was not taken.
    NotDelivered {
        target: String,
        /// How it was to be sent.
        channel: Channel,
        topic: Topic,
        /// The job that it is about; none when it is about no single job.
        job_id: Option<String>,
        /// The run that it is about, if it is about one.
        run_id: Option<i64>,
        /// How often it was tried so far.
        tries: i32,
        /// What the service or the connection said.
        error: String,
        /// Else it is tried again.
        given_up: bool,
    },
    /// A sign of life was sent, or could not be.
    Pinged {
        /// Why it could not be sent.
        error: Option<String>,
    },
    /// Targets want mail, and this agent cannot send any.
    NoMail { targets: Vec<String> },
    /// The farm does not do its work, so nobody outside is told that it does.
    PingWithheld {
        /// What the farm does not do.
        why: &'static str,
    },
}

impl Told {
    pub(super) fn severity(&self) -> Severity {
        match self {
            Self::Delivered { complaint: None, .. } => Severity::Info,
            Self::Pinged { error: None } => Severity::Debug,
            Self::NotDelivered { given_up: true, .. } => Severity::Error,
            _ => Severity::Warning,
        }
    }

    pub(super) fn measure(&self, m: &Metrics) {
        let (channel, result) = match self {
            Self::Delivered { channel, .. } => (channel.as_str(), "delivered"),
            // A test is no message of a job.
            Self::NotDelivered {
                channel,
                given_up,
                topic,
                ..
            } => {
                let lost = *given_up && *topic != Topic::Test;
                (channel.as_str(), if lost { "failed" } else { "error" })
            }
            Self::Pinged { error: None } => ("ping", "delivered"),
            Self::Pinged { error: Some(_) } => ("ping", "error"),
            Self::NoMail { .. } | Self::PingWithheld { .. } => return,
        };
        m.notifications.with_label_values(&[channel, result]).inc();
    }

    /// The name that it is stored under: of the tries of one message, the first that failed and the last.
    pub(super) fn kind(&self) -> Option<EventKind> {
        match self {
            Self::NotDelivered { given_up: true, .. } => Some(EventKind::NotificationFailed),
            Self::NotDelivered { tries: 1, .. } => Some(EventKind::NotificationDelayed),
            Self::Delivered {
                complaint: Some(_), ..
            } => Some(EventKind::NotificationRefused),
            Self::NoMail { .. } => Some(EventKind::MailUnconfigured),
            Self::PingWithheld { .. } => Some(EventKind::PingWithheld),
            Self::Delivered { .. } | Self::NotDelivered { .. } | Self::Pinged { .. } => None,
        }
    }

    pub(super) fn fill(&self, row: &mut EventRow) {
        match self {
            Self::Delivered {
                target,
                channel,
                topic,
                job_id,
                complaint,
            } => {
                row.job_id.clone_from(job_id);
                row.detail =
                    json!({"target": target, "channel": channel, "topic": topic, "error": complaint});
            }
            Self::NotDelivered {
                target,
                channel,
                topic,
                job_id,
                run_id,
                tries,
                error,
                ..
            } => {
                row.job_id.clone_from(job_id);
                row.run_id = *run_id;
                row.detail = json!({"target": target, "channel": channel, "topic": topic, "tries": tries,
                    "error": error});
            }
            Self::Pinged { error } => row.detail = json!({"error": error}),
            Self::NoMail { targets } => row.detail = json!({"targets": targets}),
            Self::PingWithheld { why } => row.detail = json!({"why": why}),
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered {
                target,
                channel,
                topic,
                job_id,
                complaint,
            } => {
                write!(
                    f,
                    "told {target} by {channel} of {}",
                    about(*topic, job_id.as_deref())
                )?;
                complaint
                    .as_ref()
                    .map_or(Ok(()), |what| write!(f, ", not all of it: {what}"))
            }
            Self::NotDelivered {
                target,
                channel,
                topic,
                job_id,
                tries,
                error,
                given_up,
                ..
            } => {
                let about = about(*topic, job_id.as_deref());
                let then = if *given_up {
                    "given up"
                } else {
                    "it is tried again"
                };
                write!(
                    f,
                    "could not tell {target} by {channel} of {about} (try {tries}, {then}): {error}"
                )
            }
            Self::Pinged { error: None } => write!(f, "sent the sign of life"),
            Self::Pinged { error: Some(error) } => write!(f, "could not send the sign of life: {error}"),
            Self::NoMail { targets } => write!(
                f,
                "the configuration has no [smtp], and mail is to go to {}: this agent cannot send it",
                targets.join(", ")
            ),
            Self::PingWithheld { why } => write!(f, "no sign of life is sent: {why}"),
        }
    }
}

fn about(topic: Topic, job_id: Option<&str>) -> String {
    job_id.map_or_else(|| topic.to_string(), |job| format!("{topic} of {job}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_never_arrived_is_no_lost_message() {
        let lost = |topic| {
            let m = Metrics::new().unwrap();
            let told = Told::NotDelivered {
                target: "ops".to_owned(),
                channel: Channel::Webhook,
                topic,
                job_id: None,
                run_id: None,
                tries: 70,
                error: "no answer".to_owned(),
                given_up: true,
            };
            told.measure(&m);
            m.notifications.with_label_values(&["webhook", "failed"]).get()
        };
        assert_eq!((lost(Topic::Failure), lost(Topic::Test)), (1, 0));
    }
}
