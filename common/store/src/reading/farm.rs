//! The farm's verdict: all well, or what is late, stuck or failing.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::query::FailingJob;
use crate::text::words;
use crate::top::NextNow;

use super::nodes::NodeState;

/// Rows of each list.
const ROWS: i64 = 20;
/// A run that could be claimed, and that nobody has claimed for so long, is late.
const LATE: SignedDuration = SignedDuration::from_secs(60);
/// So long a run may wait for a pool, a lock or a rate before people are told.
const QUEUED: SignedDuration = SignedDuration::from_secs(300);
/// A takeover needs no attention while it is under way.
const TAKEOVER: SignedDuration = SignedDuration::from_secs(10);

/// How the farm is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing is late, stuck or failing.
    Well,
    /// Some jobs fail, or a node is missing, and the farm works.
    Attention,
    /// Something that is due does not run, or nobody can tell whether it does.
    Trouble,
}

/// The farm at this moment. Lists hold at most 20 rows, counts stop at 1,000.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FarmNow {
    pub db_now: Timestamp,
    #[serde(default = "well")]
    pub level: Level,
    /// One sentence for each thing that is not well, the worst first; empty when all is well.
    #[serde(default)]
    pub findings: Vec<String>,
    /// Scheduled jobs whose instant passed more than ten seconds ago and that nobody fired, the oldest first.
    pub overdue: Vec<OverdueJob>,
    /// Held runs whose lease is not as it should be, the oldest first.
    pub stuck: Vec<StuckLease>,
    /// Jobs whose last runs failed, the most failures first.
    pub failing: Vec<FailingJob>,
    /// Nodes whose session another node ended within the last day and that have not come back, or whose lease is over.
    pub lost: Vec<LostNode>,
    /// The run that could have been claimed for the longest time.
    pub oldest_due: Option<WaitingRun>,
    /// The run that has waited longest for a pool, a lock or a rate.
    pub oldest_gated: Option<WaitingRun>,
    /// Jobs by their next instants.
    pub next: Vec<NextNow>,
    /// Runs that are held.
    pub running: i64,
    /// Runs that could be claimed now.
    pub due: i64,
    /// Runs that wait for another one, a pool, a lock or a rate.
    pub waiting: i64,
    /// Nodes by state, as lists of nodes name them.
    #[schema(value_type = BTreeMap<String, i64>)]
    pub nodes: BTreeMap<NodeState, i64>,
    /// Of nodes that may claim.
    pub slots: i64,
    /// Whether claims are open: they are not after the database was replaced, until its epoch is opened.
    pub claims_open: bool,
    /// Whether there is any job.
    pub any_job: bool,
}

fn well() -> Level {
    Level::Well
}

words! {
    /// What is wrong with a lease.
    LeaseTrouble {
        /// It is over, and nobody took the run over.
        Expired = "expired",
        /// Claimed and not started, or kept by `hold` after its session.
        Stalled = "stalled",
        /// Past the attempt's timeout.
        Overrun = "overrun",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverdueJob {
    pub job_id: String,
    pub next_run: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StuckLease {
    pub run_id: i64,
    pub job_id: String,
    pub node: String,
    pub attempt: i32,
    pub state: LeaseTrouble,
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostNode {
    pub address: String,
    /// Lost or expired.
    pub state: NodeState,
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingRun {
    pub run_id: i64,
    pub job_id: String,
    /// Since when it could have started.
    pub ready_at: Timestamp,
    /// The only node that may run it.
    pub node: Option<String>,
    /// Labels that a node must have.
    pub placement: Option<BTreeMap<String, String>>,
    /// What it waits for: pool, lock or rate.
    pub gate: Option<String>,
    /// Whether a ready node may run it.
    pub fits: bool,
}

impl WaitingRun {
    /// What it waits for, in words.
    pub fn reason(&self) -> String {
        match (&self.gate, self.fits, &self.node, &self.placement) {
            (Some(gate), ..) => format!("its {gate}"),
            (None, true, ..) => "a free slot".to_owned(),
            (None, false, Some(node), _) => format!("node {node}, which is not ready"),
            (None, false, None, Some(labels)) => {
                let labels: Vec<_> = labels
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                format!("a node with {}: none is ready", labels.join(", "))
            }
            (None, false, None, None) => "a node: none is ready".to_owned(),
        }
    }
}

/// Reads the moment and judges it.
pub async fn farm(db: &Db) -> Result<FarmNow, StoreError> {
    let mut now: FarmNow = db
        .row(stmt!("reading_farm"), &[(&ROWS, Type::INT8)])
        .await?
        .ok_or(StoreError::Decode {
            op: "reading_farm",
            message: "no row".to_owned(),
        })?;
    judge(&mut now);
    Ok(now)
}

/// The verdict of what was read.
fn judge(now: &mut FarmNow) {
    let mut found: Vec<(Level, String)> = Vec::new();
    let ready = now.nodes.get(&NodeState::Ready).copied().unwrap_or(0);
    let many = |list: usize, one: &str, more: &str| match list {
        1 => format!("1 {one}"),
        n if i64::try_from(n) == Ok(ROWS) => format!("{n} or more {more}"),
        n => format!("{n} {more}"),
    };
    let db_now = now.db_now;
    let waited = |since: Timestamp| match db_now.duration_since(since).as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    };
    now.stuck
        .retain(|lease| db_now.duration_since(lease.since) > TAKEOVER);
    if !now.claims_open {
        found.push((
            Level::Trouble,
            "claims are closed: the database was restarted or replaced".to_owned(),
        ));
    }
    if ready == 0 && (now.any_job || !now.nodes.is_empty()) {
        found.push((Level::Trouble, "no node is ready: nothing can run".to_owned()));
    }
    if let Some(first) = now.overdue.first() {
        let count = many(now.overdue.len(), "job is late", "jobs are late");
        found.push((
            Level::Trouble,
            format!("{count}, first {}: no agent fires them", first.job_id),
        ));
    }
    if !now.stuck.is_empty() {
        let count = many(now.stuck.len(), "run is stuck", "runs are stuck");
        found.push((Level::Trouble, format!("{count} on an unresponsive node")));
    }
    if let Some(oldest) = &now.oldest_due
        && db_now.duration_since(oldest.ready_at) > LATE
    {
        let (run, job, reason) = (oldest.run_id, &oldest.job_id, oldest.reason());
        let waited = waited(oldest.ready_at);
        found.push((
            Level::Trouble,
            format!("run {run} of {job} has waited {waited} for {reason}"),
        ));
    }
    if let Some(blocked) = now.nodes.get(&NodeState::Blocked) {
        let nodes = if *blocked == 1 { "node" } else { "nodes" };
        found.push((
            Level::Attention,
            format!("{blocked} {nodes} cannot start runs: `farmhand node ls` says why"),
        ));
    }
    if let Some(node) = now.lost.first() {
        let count = many(now.lost.len(), "node is lost", "nodes are lost");
        found.push((Level::Attention, format!("{count}: {}", node.address)));
    }
    if let Some(oldest) = &now.oldest_gated
        && db_now.duration_since(oldest.ready_at) > QUEUED
    {
        let (run, job, reason) = (oldest.run_id, &oldest.job_id, oldest.reason());
        let waited = waited(oldest.ready_at);
        found.push((
            Level::Attention,
            format!("run {run} of {job} has waited {waited} for {reason}"),
        ));
    }
    if let Some(first) = now.failing.first() {
        let count = many(now.failing.len(), "job is failing", "jobs are failing");
        let times = match first.consecutive_failures {
            1 => "1 failure".to_owned(),
            n => format!("{n} failures in a row"),
        };
        found.push((Level::Attention, format!("{count}: {}, {times}", first.job_id)));
    }
    // Of one level, in the order of this list.
    found.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    now.level = found.iter().map(|(level, _)| *level).max().unwrap_or(Level::Well);
    now.findings = found.into_iter().map(|(_, text)| text).collect();
}

#[cfg(test)]
#[path = "farm_tests.rs"]
mod tests;
