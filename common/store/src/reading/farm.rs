//! What the farm's verdict is made of: what is late, stuck, waiting, lost or failing.

use std::collections::BTreeMap;

use farmhand_core::health::Level;
use farmhand_core::verdict::{
    Cause, FarmFacts, Finding, Gated, Several, Stuck, TAKEOVER, Waiting, gate, judge, level,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::pools::gate_facts;
use crate::query::FailingJob;
use crate::text::words;
use crate::top::NextNow;

use super::explain::need;
use super::nodes::NodeState;

/// Rows of each list.
const ROWS: i64 = 20;
/// The farm at this moment. Lists hold at most 20 rows, counts stop at 1,000.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FarmNow {
    pub db_now: Timestamp,
    #[serde(default = "well")]
    #[schema(value_type = crate::described::Level)]
    pub level: Level,
    /// Each thing that is not well, the worst first; empty when all is well.
    #[serde(default)]
    #[schema(value_type = Vec<crate::described::FarmFinding>)]
    pub findings: Vec<Finding>,
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
    #[schema(value_type = crate::described::NodeState)]
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
    fn cause(&self, nothing_ready: bool, gated: Option<Gated>) -> Cause {
        match (gated, &self.node, &self.placement) {
            (Some(gated), ..) => Cause::Gate(gated),
            (None, ..) if self.fits => Cause::Slot,
            (None, Some(node), _) => Cause::Node(node.clone()),
            (None, None, Some(labels)) if !nothing_ready => Cause::Labels(labels.clone()),
            (None, None, _) => Cause::NoNode,
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
    now.stuck
        .retain(|lease| now.db_now.duration_since(lease.since) > TAKEOVER);
    let gated = match &now.oldest_gated {
        Some(run) => gate_facts(db, &run.job_id, run.rev, run.run_id)
            .await?
            .and_then(|facts| gate(&need(facts, now.db_now))),
        None => None,
    };
    now.judged(gated);
    Ok(now)
}

impl FarmNow {
    /// With the verdict of what was read.
    fn judged(&mut self, gated: Option<Gated>) {
        let facts = self.facts(gated);
        for (run, waits) in [
            (&mut self.oldest_due, &facts.due),
            (&mut self.oldest_gated, &facts.gated),
        ] {
            if let (Some(run), Some(waits)) = (run, waits) {
                run.waits_for = waits.cause.to_string();
            }
        }
        self.findings = judge(&facts);
        self.level = level(&self.findings);
    }

    fn facts(&self, gated: Option<Gated>) -> FarmFacts {
        let most = usize::try_from(ROWS).unwrap_or(usize::MAX);
        let count = |state| self.nodes.get(&state).copied().unwrap_or(0);
        let ready = count(NodeState::Ready);
        let waiting = |run: &Option<WaitingRun>, gated| {
            run.as_ref().map(|run| Waiting {
                run: run.run_id,
                job: run.job_id.clone(),
                waited: self.db_now.duration_since(run.ready_at),
                cause: run.cause(ready == 0, gated),
            })
        };
        // A node that does not answer is told once: with the run that is stuck on it, or by itself.
        let told = |node: &LostNode| {
            self.db_now.duration_since(node.since) <= TAKEOVER
                || (self.stuck.iter()).any(|s| s.state == LeaseTrouble::Expired && s.node == node.address)
        };
        let missing = |state| {
            (self.lost.iter())
                .filter(move |node| node.state == state)
                .filter(move |node| state == NodeState::Lost || !told(node))
                .map(|node| node.address.clone())
        };
        FarmFacts {
            claims_open: self.claims_open,
            any_job: self.any_job,
            any_node: !self.nodes.is_empty(),
            ready,
            blocked: count(NodeState::Blocked),
            late: Several::of(self.overdue.iter().map(|job| job.job_id.clone()), most),
            stuck: Several::of(self.stuck.iter().map(StuckLease::told), most),
            due: waiting(&self.oldest_due, None),
            gated: waiting(&self.oldest_gated, gated),
            lost: Several::of(missing(NodeState::Lost), most),
            expired: Several::of(missing(NodeState::Expired), most),
            failing: Several::of(
                (self.failing.iter()).map(|job| (job.job_id.clone(), job.consecutive_failures)),
                most,
            ),
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
