//! What a message says: the stable JSON of webhooks, and a sentence for people.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::happening::{End, Lost, Slow, State};
use super::topic::Topic;
use crate::defaults::with_defaults;

with_defaults! {
/// The body of a webhook, but for what the sender adds: `id`, `target` and `at`. Fields may be added, none is
/// removed or renamed (`docs/guides/notifications.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub version: u32 = 1,
    pub event: Topic = Topic::Other,
    /// One sentence. Chat services that take webhooks show just this.
    pub text: String,
    pub job: Option<String>,
    pub run: Option<i64>,
    pub attempt: Option<i32>,
    /// The run that triggered this one, or that it repeats.
    pub parent_run: Option<i64>,
    /// The trace and the span of the attempt.
    pub traceparent: Option<String>,
    /// Where it ended, or the node that was lost.
    pub node: Option<String>,
    /// The instant that the run is for.
    pub due: Option<Timestamp>,
    pub outcome: Option<String>,
    /// The command's, if it exited.
    pub exit_code: Option<i32>,
    /// What ended the command, if a signal did.
    pub signal: Option<i32>,
    /// Why it ended so, if that is known.
    pub reason: Option<String>,
    /// The end of the first failed run of the episode.
    pub failing_since: Option<Timestamp>,
    /// The run that began the trouble.
    pub first_failed_run: Option<i64>,
    /// Failed runs of the episode.
    pub failures: Option<i64>,
    /// By when it should have succeeded.
    pub deadline: Option<Timestamp>,
    pub last_success: Option<Timestamp>,
    /// What its definition says for people.
    #[serde(flatten)]
    pub about: About,
}
}

/// What a job says of itself for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub owner: Option<String>,
    pub description: Option<String>,
    /// What to do when it fails.
    pub runbook: Option<String>,
}

impl Message {
    fn new(event: Topic, job: Option<&str>, text: String) -> Self {
        Self {
            event,
            text,
            job: job.map(str::to_owned),
            ..Self::default()
        }
    }

    pub(super) fn failure(job: &str, end: &End) -> Self {
        let text = format!("{job} {}{}", how(end), place(end));
        Self {
            failing_since: Some(end.at),
            first_failed_run: Some(end.run_id),
            failures: Some(1),
            ..Self::new(Topic::Failure, Some(job), text).about(end)
        }
    }

    pub(super) fn recovery(job: &str, end: &End, before: &State) -> Self {
        let after = match (before.failing_since, before.late_since) {
            (Some(since), _) => {
                let runs = if before.failures == 1 { "run" } else { "runs" };
                format!(" after {} failed {runs} since {}", before.failures, shown(since))
            }
            (None, Some(deadline)) => format!("; it should have by {}", shown(deadline)),
            (None, None) => String::new(),
        };
        let text = format!("{job} succeeded again{after}{}", place(end));
        Self {
            failing_since: before.failing_since,
            first_failed_run: before.first_run,
            failures: before.failing_since.map(|_| before.failures),
            deadline: before.late_since,
            ..Self::new(Topic::Recovery, Some(job), text).about(end)
        }
    }

    pub(super) fn takeover(job: &str, lost: &Lost) -> Self {
        let why = (lost.reason.as_deref()).map_or_else(String::new, |why| format!(": {why}"));
        let text = format!(
            "{job} run {} was lost by {} in attempt {}{why}; it runs again as soon as a node takes it",
            lost.run_id, lost.node, lost.attempt
        );
        Self {
            run: Some(lost.run_id),
            attempt: Some(lost.attempt),
            node: Some(lost.node.clone()),
            due: lost.due,
            reason: lost.reason.clone(),
            ..Self::new(Topic::Takeover, Some(job), text)
        }
    }

    pub(super) fn slow(job: &str, slow: &Slow) -> Self {
        let why = (slow.exceeded).map_or_else(|| "longer than usual".to_owned(), |e| e.to_string());
        let text = format!("{job} run {} on {} takes {why}", slow.run_id, slow.node);
        Self {
            run: Some(slow.run_id),
            attempt: Some(slow.attempt),
            node: Some(slow.node.clone()),
            due: slow.due,
            reason: Some(why),
            ..Self::new(Topic::Slow, Some(job), text)
        }
    }

    pub(super) fn deadline(job: &str, deadline: Timestamp, last_success: Option<Timestamp>) -> Self {
        let last = last_success.map_or_else(
            || "it has never succeeded".to_owned(),
            |at| format!("it last succeeded at {}", shown(at)),
        );
        let text = format!("{job} should have succeeded by {}; {last}", shown(deadline));
        Self {
            deadline: Some(deadline),
            last_success,
            ..Self::new(Topic::Deadline, Some(job), text)
        }
    }

    fn about(self, end: &End) -> Self {
        Self {
            run: Some(end.run_id),
            attempt: (end.attempt > 0).then_some(end.attempt),
            node: end.node.clone(),
            due: end.due,
            outcome: Some(end.outcome.clone()),
            exit_code: end.exit_code,
            signal: end.signal,
            reason: end.reason.clone(),
            ..self
        }
    }
}

/// What `farmhand notify test` sends.
pub fn test_message(target: &str, by: &str) -> Message {
    let text = format!("a test of the target {target}, asked for by {by}");
    Message::new(Topic::Test, None, text)
}

fn how(end: &End) -> String {
    let what = match end.outcome.as_str() {
        "timed_out" => "timed out",
        "lost" => "was lost",
        other => other,
    };
    // The reason says it already, if there is one.
    let why = (end.reason.clone())
        .or_else(|| end.exit_code.map(|code| format!("exit code {code}")))
        .or_else(|| end.signal.map(|signal| format!("signal {signal}")));
    match why {
        Some(why) => format!("{what}: {why}"),
        None => what.to_owned(),
    }
}

fn place(end: &End) -> String {
    let node = (end.node.as_deref()).map_or_else(String::new, |node| format!(" on {node}"));
    format!(" (run {}{node})", end.run_id)
}

/// To the second: people read it.
fn shown(at: Timestamp) -> String {
    at.round(jiff::Unit::Second).unwrap_or(at).to_string()
}
