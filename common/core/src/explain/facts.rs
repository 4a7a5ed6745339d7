//! What the database knows of a job.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::definition::JobSpec;
use crate::health::NodeState;
use crate::run::RunState;

/// What is known of a job, at one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The name that was asked for.
    pub job: String,
    /// The database's clock.
    pub now: Timestamp,
    /// The due instant in question; None asks why nothing of it runs now.
    pub at: Option<Timestamp>,
    /// The run in question, one of that instant; None asks about all of them.
    pub run: Option<i64>,
    /// What is stored of it; None when there is no such job.
    pub known: Option<Known>,
    pub nodes: Vec<Node>,
    /// Whether claims are open: they are not after the database was replaced, until its epoch is opened.
    pub claims_open: bool,
}

/// A job that exists.
#[derive(Clone, Debug)]
pub struct Known {
    pub spec: JobSpec,
    /// The definition that the run in question was made from, if it is another one.
    pub made_from: Option<JobSpec>,
    /// When its first revision was applied.
    pub since: Timestamp,
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
    /// The pool of each node.
    pub node_pool: Option<String>,
    /// Its places; None when there is no such pool any more.
    pub node_pool_size: Option<i64>,
    /// Whether no place is left, of the farm or on any ready node that may run it.
    pub pool_full: bool,
    pub locks: Vec<String>,
    /// As written: `10/1m`.
    pub rate: Option<String>,
    /// When the rate lets the next run start.
    pub rate_free_at: Option<Timestamp>,
    /// Runs that have something of this.
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
    /// The pool in which it has a place.
    pub pool: Option<String>,
    /// The pool in which it has a place on its node.
    pub node_pool: Option<String>,
    pub locks: Vec<String>,
}

/// A named lease, which has the lock of that name: `farmhand lock`, or a program that called `farmhand.acquire`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Leased {
    /// The lease, and the lock.
    pub name: String,
    /// Who has it, as they say.
    pub client: String,
    /// The database role that took it.
    pub login: String,
    pub since: Timestamp,
}

/// The run that is asked about: the one named, that of the instant, or the one that has waited longest.
pub fn subject(live: &[Live], at: Option<Timestamp>, named: Option<i64>) -> Option<&Live> {
    match (named, at) {
        (Some(named), _) => live.iter().find(|run| run.run_id == named),
        (None, Some(at)) => live
            .iter()
            .filter(|run| run.due_at == at)
            .min_by_key(|run| (run.running_at.is_some(), run.run_id)),
        (None, None) => live
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
    /// The node of its run that is under way.
    pub running_at: Option<String>,
    pub last_state: Option<String>,
    pub last_finished: Option<Timestamp>,
}

/// The end of a parent that has led to nothing yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriggerWait {
    pub parent: String,
    pub run_id: i64,
    /// The instant that the run is for.
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
    /// Why, as they said.
    pub reason: Option<String>,
}

/// A run, or a fold of skipped instants.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The run, or the fold.
    pub run_id: i64,
    pub state: RunState,
    /// Why it ended so, if that is known.
    pub reason: Option<String>,
    /// The first of the instants that it stands for.
    pub first_due: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// The node on which it runs.
    pub running_at: Option<String>,
    /// Its last attempt; 0 when it was never claimed.
    pub attempt: i32,
}

/// A run that has not ended.
#[derive(Clone, Debug, Deserialize)]
pub struct Live {
    pub run_id: i64,
    /// The revision it was made from.
    pub rev: i64,
    /// The instant that it is for.
    pub due_at: Timestamp,
    pub ready_at: Timestamp,
    pub created_at: Timestamp,
    /// Why it cannot be claimed, if so.
    pub gate: Option<String>,
    /// Why it was due again.
    pub reason: Option<String>,
    /// Who runs it, and since when.
    pub running_at: Option<String>,
    /// When it was claimed, if it was.
    pub claimed_at: Option<Timestamp>,
    /// When its attempt started; None while it has not.
    pub started_at: Option<Timestamp>,
    /// The session of its node that claimed it.
    pub session: Option<i64>,
    /// What it is when its attempt is lost: due again, or how it ends.
    pub if_lost: RunState,
    /// Its last attempt; 0 before the first.
    pub attempt: i32,
    /// The only node that may run it.
    pub node: Option<String>,
    /// Whether other runs of its job wait for it.
    pub overlaps: bool,
}

/// What the claim statement looks at in a node.
#[derive(Clone, Debug)]
pub struct Node {
    pub address: String,
    pub state: NodeState,
    /// Its present session, or one more than the last when another node ended that.
    pub session: i64,
    /// When another node ended its last session, while it has no new one.
    pub lost_at: Option<Timestamp>,
    /// Attempts that it may run at once.
    pub slots: i64,
    pub running: i64,
    /// What `where` asks for.
    pub labels: BTreeMap<String, String>,
    /// Since when it is not ready, and who wanted that.
    pub since: Option<Timestamp>,
    /// Who wants it drained or cordoned.
    pub by: Option<String>,
    /// Why it claims nothing.
    pub cannot_start: Option<String>,
}

impl Live {
    /// Whether it waits for other runs of its job.
    pub(super) fn queued(&self) -> bool {
        self.gate.as_deref() == Some("overlap")
    }
}
