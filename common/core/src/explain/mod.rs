//! Why a job does not run: the gates that a run passes, in their order, and which of them holds it back.
//!
//! Pure: what the database knows comes in as [`Facts`].

mod gates;
mod instant;
mod needs;
#[cfg(test)]
mod needs_tests;
mod places;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
mod trigger;
#[cfg(test)]
mod trigger_tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::definition::JobSpec;
use super::health::NodeState;
use super::run::RunState;

pub use gates::explain;

crate::words! {
    /// The gates in the order in which a run meets them.
    Gate {
        Exists = "exists",
        Enabled = "enabled",
        Paused = "paused",
        Schedule = "schedule",
        Window = "window",
        Calendar = "calendar",
        Dst = "dst",
        /// Whether the instant was made into a run.
        Fired = "fired",
        Overlap = "overlap",
        Trigger = "trigger",
        Pool = "pool",
        Lock = "lock",
        Rate = "rate",
        /// The run's own time: a retry's pause.
        Ready = "ready",
        Placement = "placement",
        Nodes = "nodes",
        NodePool = "node_pool",
        Slots = "slots",
        Database = "database",
    }
}

/// What is known of a job, at one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    pub job: String,
    /// The database's clock.
    pub now: Timestamp,
    /// The due instant in question; None asks why nothing of it runs now.
    pub at: Option<Timestamp>,
    pub known: Option<Known>,
    pub nodes: Vec<Node>,
    /// Whether claims are open: they are not after the database was replaced, until its epoch is opened.
    pub claims_open: bool,
}

/// A job that exists.
#[derive(Clone, Debug)]
pub struct Known {
    pub spec: JobSpec,
    /// When its first revision was applied.
    pub since: Timestamp,
    /// When the present one was.
    pub applied_at: Timestamp,
    pub paused: Option<Paused>,
    pub next_run: Option<Timestamp>,
    /// Everything of the schedule up to here has an outcome.
    pub decided_until: Option<Timestamp>,
    /// What is recorded for the instant in question.
    pub outcomes: Vec<Outcome>,
    /// Its runs that have not ended, oldest instant first.
    pub live: Vec<Live>,
    /// What the run in question needs; None when it needs nothing, or none waits.
    pub needed: Option<Needed>,
    /// The jobs that trigger it.
    pub triggers: Vec<Triggering>,
    /// Their ends that it has not followed yet, oldest first.
    pub waiting: Vec<TriggerWait>,
}

/// What a waiting run needs besides a slot, and who has it.
#[derive(Clone, Debug, Default)]
pub struct Needed {
    /// The database's clock.
    pub now: Timestamp,
    pub pool: Option<String>,
    /// None when there is no such pool any more.
    pub pool_size: Option<i64>,
    pub node_pool: Option<String>,
    pub node_pool_size: Option<i64>,
    pub locks: Vec<String>,
    /// As written: `10/1m`.
    pub rate: Option<String>,
    /// When the rate lets the next run start.
    pub rate_free_at: Option<Timestamp>,
    pub holders: Vec<Held>,
    /// Named leases that have one of the locks.
    pub leases: Vec<Leased>,
    /// A run, and its job, that wants one of the locks and comes first.
    pub before: Option<(i64, String)>,
}

/// A running run, with what it holds of that.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Held {
    pub run_id: i64,
    pub job_id: String,
    pub node: String,
    pub since: Timestamp,
    pub pool: Option<String>,
    pub node_pool: Option<String>,
    pub locks: Vec<String>,
}

/// A named lease, which has the lock of that name: `farmhand lock`, or a program that called `farmhand.acquire`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Leased {
    pub name: String,
    pub client: String,
    pub login: String,
    pub since: Timestamp,
}

/// The run that is asked about: that of the instant, or the one that has waited longest.
pub fn subject(live: &[Live], at: Option<Timestamp>) -> Option<&Live> {
    match at {
        Some(at) => live.iter().find(|run| run.due_at == at),
        None => live
            .iter()
            .filter(|run| run.running_at.is_none())
            .min_by_key(|run| (run.due_at, run.run_id)),
    }
}

/// A job that triggers the one in question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Triggering {
    pub job_id: String,
    /// success, failure or finish.
    pub on: String,
    /// enabled, disabled, paused, deleted.
    pub state: String,
    pub next_run: Option<Timestamp>,
    /// Its runs that have not ended.
    pub running: Vec<i64>,
    pub running_at: Option<String>,
    pub last_state: Option<String>,
    pub last_finished: Option<Timestamp>,
}

/// The end of a parent that has led to nothing yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriggerWait {
    pub parent: String,
    pub run_id: i64,
    pub due_at: Timestamp,
    pub ended_at: Timestamp,
    /// The other parents it waits for; empty when nobody has looked at it.
    pub waits: Vec<String>,
}

/// Who paused something, when and why.
#[derive(Clone, Debug)]
pub struct Paused {
    pub by: Option<String>,
    pub at: Option<Timestamp>,
    pub reason: Option<String>,
}

/// A run, or a fold of skipped instants.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub run_id: i64,
    pub state: RunState,
    pub reason: Option<String>,
    pub first_due: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub running_at: Option<String>,
}

/// A run that has not ended.
#[derive(Clone, Debug, Deserialize)]
pub struct Live {
    pub run_id: i64,
    /// The revision it was made from.
    pub rev: i64,
    pub due_at: Timestamp,
    pub ready_at: Timestamp,
    pub created_at: Timestamp,
    /// Why it cannot be claimed, if so.
    pub gate: Option<String>,
    pub reason: Option<String>,
    /// Who runs it, and since when.
    pub running_at: Option<String>,
    pub claimed_at: Option<Timestamp>,
    /// The only node that may run it.
    pub node: Option<String>,
}

/// What the claim statement looks at in a node.
#[derive(Clone, Debug)]
pub struct Node {
    pub address: String,
    pub state: NodeState,
    pub slots: i64,
    pub running: i64,
    pub labels: std::collections::BTreeMap<String, String>,
    /// Since when it is not ready, and who wanted that.
    pub since: Option<Timestamp>,
    pub by: Option<String>,
    /// Why its machine starts no processes.
    pub cannot_start: Option<String>,
}

/// One gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub gate: Gate,
    pub open: bool,
    pub what: String,
    /// Since when it is closed, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What would open it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frees: Option<String>,
}

/// Every gate that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub job_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The first closed gate; None when nothing holds it back.
    pub held_by: Option<Gate>,
    /// One sentence.
    pub answer: String,
    pub gates: Vec<Finding>,
}
