//! A claimed run, and the names by which an attempt of it is known.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

/// One incarnation of a node's lease, as every write about it names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseIdentity {
    pub address: String,
    /// The session's number, never used twice for that node.
    pub session: i64,
    /// The random number of the agent start that opened it.
    pub incarnation: Uuid,
}

crate::words! {
    /// What made a run.
    RunKind {
        /// A due instant of the schedule.
        Scheduled = "scheduled",
        /// A person, or a program.
        Submitted = "submitted",
        /// The end of another job's run.
        Triggered = "triggered",
        /// A person, for an instant that is past.
        Backfill = "backfill",
        /// A new run made from a finished one by hand.
        Retry = "retry",
        /// A row of a table job.
        Table = "table",
        /// The end of the round before.
        Continuous = "continuous",
        /// A job that is a stream.
        Stream = "stream",
        /// A job that is a flow.
        Flow = "flow",
        /// A word that this release does not know: one row must not hide the others of a list.
        #[serde(other)]
        Unknown = "unknown",
    }
}

/// A run that is now held by the caller's session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    pub run_id: i64,
    pub job_id: String,
    /// The revision of the definition that it runs.
    pub rev: i64,
    pub kind: RunKind,
    /// Its number among the runs of its firing, from 0.
    pub instance: i32,
    /// How many runs its firing made.
    pub instances: i32,
    /// The only node that may run it.
    pub node: Option<String>,
    /// The instant that it is for.
    pub due_at: Timestamp,
    pub ready_at: Timestamp,
    /// The number of this attempt, from 1.
    pub attempt: i32,
    /// epoch · 2⁴⁰ + a sequence: grows with every claim, also when the database is replaced.
    pub fence: i64,
    /// How many of the attempts before this one were followed by a retry.
    pub retries: i32,
    /// How many of them were lost.
    pub takeovers: i32,
    /// Higher is claimed first.
    pub priority: i32,
    /// Those that were given; defaults are the definition's.
    pub params: Value,
    /// The run that this one repeats.
    pub parent_run: Option<i64>,
    pub key: Option<String>,
    /// Of a triggered run: the run of each job that triggered it.
    pub parents: Option<Value>,
    /// The first of several runs that were made together.
    pub firing: Option<i64>,
    /// Why it was due again: `takeover`, `retry`, …
    pub reason: Option<String>,
    /// The job's definition at `rev`; null only if it was deleted from `job_revision` by hand.
    #[serde(serialize_with = "plain", deserialize_with = "shared")]
    pub spec: Arc<Value>,
    /// Tasks of a flow that are not to run again.
    pub done: Option<Vec<String>>,
    /// Of a stream: what is known of its lines beyond the checkpoint.
    pub items: Option<Items>,
    /// What an earlier attempt last reported about how far it had come.
    pub checkpoint: Option<String>,
    /// When the claim was made, by the database's clock.
    pub claimed_at: Timestamp,
    /// Who vouches for the definition; read only where signatures are asked for.
    pub signed: Option<Signed>,
}

fn plain<S: Serializer>(spec: &Arc<Value>, to: S) -> Result<S::Ok, S::Error> {
    Value::serialize(spec, to)
}

fn shared<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Value>, D::Error> {
    Value::deserialize(from).map(Arc::new)
}

/// What a new attempt of a stream must know beyond its checkpoint; as `farmhand.stream_items` says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Items {
    /// Lines that are recorded as given up.
    pub recorded: Vec<u64>,
    /// The numbers of the only lines that are to be run, again.
    pub replay: Option<Vec<u64>>,
}

/// A signed definition. The document is the very text that was signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// The text that was signed, as it was written.
    pub document: String,
    /// Name of the key, in the nodes' list of trusted ones.
    pub key: String,
    /// Base64 of the 64 bytes.
    pub signature: String,
}

/// One attempt, unmistakably: after a failover that lost commits its number is given a second time, its fence
/// never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    pub run_id: i64,
    /// Its number, from 1.
    pub attempt: i32,
    /// Of its claim; a write with another one changes nothing.
    pub fence: i64,
}

impl From<&Claimed> for Attempt {
    fn from(run: &Claimed) -> Self {
        Self {
            run_id: run.run_id,
            attempt: run.attempt,
            fence: run.fence,
        }
    }
}

/// One attempt, as events name it.
#[derive(Clone, Debug)]
pub struct AttemptRef {
    pub job_id: String,
    /// The run's kind, as logs say it.
    pub kind: String,
    pub run_id: i64,
    /// Its number, from 1.
    pub attempt: i32,
    pub fence: i64,
}

impl fmt::Display for AttemptRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} run {} attempt {}", self.job_id, self.run_id, self.attempt)
    }
}
