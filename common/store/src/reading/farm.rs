//! What the farm's verdict is made of: what is late, stuck, waiting, lost or failing.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_core::definition::Placement;
use farmhand_core::durations::Exceeded;
use farmhand_core::health::{JobState, Level};
use farmhand_core::verdict::{
    FLAPS, FarmFacts, Finding, Several, Slow, Stuck, TAKEOVER, Waiting, judge, level,
};
use farmhand_core::waits::{Gated, WaitsFor, gate};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::pools::gate_facts;

use super::explain::need;
use super::nodes::NodeState;
use super::queue::NextNow;
use super::troubles::{FailingJob, FlappingNode, LeaseTrouble, LostNode, OverdueJob, SlowRun, StuckLease};

/// Rows of each list.
const ROWS: i64 = 20;

/// The farm at this moment. Lists hold at most 20 rows; counts stop at 1,000.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FarmNow {
    /// The database's clock.
    pub db_now: Timestamp,
    /// How bad the worst finding is.
    #[serde(default = "well")]
    pub level: Level,
    /// Each thing that is not well, the worst first; empty when all is well.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Scheduled jobs whose instant passed more than ten seconds ago and that nobody fired, the oldest first.
    pub overdue: Vec<OverdueJob>,
    /// Held runs whose lease is not as it should be, the oldest first.
    pub stuck: Vec<StuckLease>,
    /// Nodes that are there and were lost three times or more within an hour.
    #[serde(default)]
    pub flapping: Vec<FlappingNode>,
    /// Runs that take longer than usual, the oldest first.
    #[serde(default)]
    pub slow: Vec<SlowRun>,
    /// Jobs whose last runs failed, the most failures first.
    pub failing: Vec<FailingJob>,
    /// Nodes whose session another node ended within the last day and that have not come back, or whose lease is over.
    pub lost: Vec<LostNode>,
    /// Nodes whose machines refuse to start runs.
    #[serde(default)]
    pub blocked: Vec<String>,
    /// The run that could have been claimed for the longest time.
    pub oldest_due: Option<WaitingRun>,
    /// The run that has waited longest for a pool, a lock or a rate.
    pub oldest_gated: Option<WaitingRun>,
    /// The oldest run of both.
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    waits: Vec<WaitingRun>,
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
    /// Of nodes that may claim, and of those where runs are still held.
    pub slots: i64,
    /// Whether claims are open: they are not after the database was replaced, until its epoch is opened.
    pub claims_open: bool,
    /// Whether there is any job.
    pub any_job: bool,
}

fn well() -> Level {
    Level::Well
}

/// A due run that nobody claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingRun {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// Since when it waits: one that was taken over or tried again, from then on.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub ready_at: Timestamp,
    /// The only node that may run it.
    pub node: Option<String>,
    /// Sets of labels, one of which a node must have.
    pub placement: Option<Vec<BTreeMap<String, String>>>,
    /// The gate that it waits at: pool, lock or rate.
    pub gate: Option<String>,
    /// Whether a ready node may run it.
    pub fits: bool,
    /// What it waits for, in words: the pool or lock and who holds it, a node, a free slot.
    #[serde(default)]
    pub waits_for: String,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    rev: i64,
}

impl WaitingRun {
    fn needs(&self, nothing_ready: bool, gated: Option<Gated>) -> WaitsFor {
        match (gated, &self.node, &self.placement) {
            (Some(gated), ..) => WaitsFor::Gate(gated),
            (None, ..) if self.fits => WaitsFor::Slot,
            (None, Some(node), _) => WaitsFor::Node(node.clone()),
            (None, None, Some(sets)) if !nothing_ready => WaitsFor::Labels(Placement::of_sets(sets)),
            (None, None, _) => WaitsFor::NoNode,
        }
    }
}

/// Reads the moment and judges it.
pub async fn farm(db: &Db) -> Result<FarmNow, StoreError> {
    let mut now: FarmNow = db
        .one(
            stmt!("reading_farm"),
            &[(&ROWS, Type::INT8), (&FLAPS, Type::INT8)],
        )
        .await?;
    now.stuck
        .retain(|lease| now.db_now.duration_since(lease.since) > TAKEOVER);
    let mut gated = BTreeMap::new();
    for run in now.waits.iter().filter(|run| run.gate.is_some()) {
        let facts = gate_facts(db, &run.job_id, run.rev, run.run_id).await?;
        if let Some(holds) = facts.and_then(|facts| gate(&need(facts, now.db_now))) {
            gated.insert(run.run_id, holds);
        }
    }
    now.judged(gated);
    Ok(now)
}

/// The farm at this moment, and how much of what it has.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FarmStatus {
    /// How it does.
    #[serde(flatten)]
    pub now: FarmNow,
    /// What it has.
    #[serde(flatten)]
    pub totals: FarmTotals,
}

/// Counts of the whole farm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FarmTotals {
    /// Jobs by state.
    pub jobs: BTreeMap<JobState, i64>,
    /// Live rounds of continuous jobs.
    pub rounds: i64,
    /// Instances that continuous jobs ask for.
    pub loops: i64,
    /// The database's epoch.
    pub epoch: i64,
}

/// Reads the moment and the totals.
pub async fn status(db: &Db) -> Result<FarmStatus, StoreError> {
    let totals = db.one(stmt!("reading_farm_totals"), &[]);
    let (now, totals) = tokio::try_join!(farm(db), totals)?;
    Ok(FarmStatus { now, totals })
}

impl FarmNow {
    /// With the verdict of what was read; `gated` by run.
    fn judged(&mut self, mut gated: BTreeMap<i64, Gated>) {
        let nothing_ready = self.count(NodeState::Ready) == 0;
        let needs: Vec<WaitsFor> = (self.waits.iter())
            .map(|run| run.needs(nothing_ready, gated.remove(&run.run_id)))
            .collect();
        for (run, needs) in self.waits.iter_mut().zip(&needs) {
            run.waits_for = needs.to_string();
        }
        let oldest = |gated: bool| {
            let runs = self.waits.iter().filter(|run| run.gate.is_some() == gated);
            runs.min_by_key(|run| (run.ready_at, run.run_id)).cloned()
        };
        (self.oldest_due, self.oldest_gated) = (oldest(false), oldest(true));
        self.findings = judge(&self.facts(&needs));
        self.level = level(&self.findings);
    }

    fn count(&self, state: NodeState) -> i64 {
        self.nodes.get(&state).copied().unwrap_or(0)
    }

    fn facts(&self, needs: &[WaitsFor]) -> FarmFacts {
        let waiting = |gated: bool| {
            let runs = self.waits.iter().zip(needs);
            let runs = runs.filter(|(run, _)| run.gate.is_some() == gated);
            several(runs.map(|(run, needs)| Waiting {
                run: run.run_id,
                job: run.job_id.clone(),
                waited: self.db_now.duration_since(run.ready_at),
                waits_for: needs.clone(),
            }))
        };
        // A node that does not answer is told once: with the run that is stuck on it, or by itself.
        let told = |node: &LostNode| {
            self.db_now.duration_since(node.since) <= TAKEOVER
                || (self.stuck.iter()).any(|s| s.state == LeaseTrouble::Expired && s.node == node.address)
        };
        let missing = |state| {
            let nodes = self.lost.iter().filter(|node| node.state == state);
            let nodes = nodes.filter(|node| state == NodeState::Lost || !told(node));
            several(nodes.map(|node| node.address.clone()))
        };
        FarmFacts {
            claims_open: self.claims_open,
            any_job: self.any_job,
            any_node: !self.nodes.is_empty(),
            ready: self.count(NodeState::Ready),
            blocked: several(self.blocked.iter().cloned()),
            late: several(self.overdue.iter().map(|job| job.job_id.clone())),
            stuck: several(self.stuck.iter().map(StuckLease::told)),
            due: waiting(false),
            gated: waiting(true),
            lost: missing(NodeState::Lost),
            expired: missing(NodeState::Expired),
            flapping: several((self.flapping.iter()).map(|node| (node.address.clone(), node.times))),
            slow: several(
                (self.slow.iter())
                    // One that is stuck is told as that.
                    .filter(|run| self.stuck.iter().all(|stuck| stuck.run_id != run.run_id))
                    .map(|run| run.told(self.db_now)),
            ),
            failing: several((self.failing.iter()).map(|job| (job.job_id.clone(), job.consecutive_failures))),
        }
    }
}

fn several<T>(rows: impl Iterator<Item = T>) -> Several<T> {
    Several::of(rows, usize::try_from(ROWS).unwrap_or(usize::MAX))
}

impl SlowRun {
    fn told(&self, now: Timestamp) -> Slow {
        Slow {
            run: self.run_id,
            job: self.job_id.clone(),
            node: self.node.clone(),
            lasted: now.duration_since(self.started_at),
            exceeded: Exceeded {
                p95: Duration::from_millis(self.p95_ms),
                runs: self.runs,
            },
        }
    }
}

impl StuckLease {
    fn told(&self) -> Stuck {
        let how = match self.state {
            LeaseTrouble::Expired => "the node's lease is over",
            LeaseTrouble::Stalled => "it was claimed and has not started, or its node's session has ended",
            LeaseTrouble::Overrun => "it is past its timeout",
        };
        Stuck {
            run: self.run_id,
            job: self.job_id.clone(),
            node: self.node.clone(),
            how: how.to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "farm_tests.rs"]
mod tests;
