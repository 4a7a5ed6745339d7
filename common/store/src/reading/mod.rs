//! What the API and the web page read. Every function works on the handle of [`Reading`], so that looking
//! never slows claiming, and is bounded: lists come in pages of at most [`MOST`], found by key and never by counting;
//! a filter that no index serves looks at a bounded stretch of rows per page and says where the next page goes on.

mod ahead;
mod bars;
mod days;
mod events;
mod explain;
mod farm;
mod flow;
mod job;
mod jobs;
mod lanes;
mod logs;
mod marks;
mod matches;
mod nodes;
mod observed;
mod outages;
mod page;
mod queue;
mod run;
mod runs;
mod troubles;
mod view;

use std::time::Duration;

use jiff::Timestamp;

use super::db::stmt;
use super::{Db, DbConfig, StoreError};

pub use crate::jobs::RevisionItem;
pub use ahead::{Ahead, JobAhead, Step, ahead, usual};
pub use bars::{Bar, BarEnd, FenceMark, Successor, was_expired};
pub use days::{Durations, JobDay, JobDays, MOST_DAYS, SuccessRate, days, days_in};
pub use events::{EventsFilter, events, events_after};
pub use explain::{explain, explain_run, live_runs};
pub use farm::{FarmNow, FarmStatus, FarmTotals, WaitingRun, farm, status};
pub use farmhand_core::health::JobState;
pub use farmhand_core::health::Level;
pub use farmhand_core::verdict::{About, Finding};
pub use flow::{FlowTask, FlowView, NAMED, flow};
pub use job::{Cell, JobDetail, NextInstants, RevisionDiff, cells, diff, job, next, revisions};
pub use jobs::{JobCondition, JobItem, JobKind, JobOrder, JobsFilter, LiveMark, OutcomeMark, jobs};
pub use lanes::{Band, Lane, Lanes, Window, lanes};
pub use logs::{LogPiece, LogRange, LogState, MOST_BYTES, Tail, log, log_state};
pub use marks::{Marks, RunMark, marks};
pub use matches::{
    LogMatch, LogMatches, MOST_MATCHES, MOST_RUNS, MOST_SOUGHT, SearchCut, Sought, job_matches, run_matches,
};
pub use nodes::{
    HeldRun, LeaseItem, NodeItem, NodeState, PoolItem, PoolWaiter, leases, node, nodes, pool, pools,
};
pub use observed::observed;
pub use outages::Outage;
pub use page::{MOST, Page, Paging, every, upto};
pub use queue::{NextNow, QueuedRun, queue};
pub use run::{AttemptRow, RunDetail, RunRow, firing, run, run_row};
pub use runs::{RunFilter, RunItem, SCANNED, runs};
pub use troubles::{FailingJob, FlappingNode, LeaseTrouble, LostNode, OverdueJob, SlowRun, StuckLease};
pub use view::{LogView, Place, log_view};

/// The server ends a statement that reads for longer.
pub const LIMIT: Duration = Duration::from_secs(2);
/// Connections at most.
const CONNECTIONS: usize = 3;

/// The reading pool: opened when first used, its transactions read only, so that looking never slows claiming.
#[derive(Clone)]
pub struct Reading(Db);

impl Reading {
    /// Reads from the database of `config`; connects when first asked.
    pub fn new(config: &DbConfig) -> Self {
        let config = config
            .clone()
            .with_application_name("farmhand-web")
            .with_max_pool(CONNECTIONS)
            .with_listen(false)
            // The client's bound is only for a server that does not keep its own.
            .with_timeouts(LIMIT + Duration::from_secs(1), Duration::from_secs(2))
            .with_read_only(LIMIT);
        Self(Db::new(&config))
    }

    /// For the functions of the store that read.
    pub fn db(&self) -> &Db {
        &self.0
    }

    /// The same, telling `observer` of every statement.
    #[must_use]
    pub fn observed_by(self, observer: super::Observer) -> Self {
        Self(self.0.observed_by(observer))
    }
}

/// The database's clock.
pub async fn now(db: &Db) -> Result<Timestamp, StoreError> {
    let (now,): (Timestamp,) = db.one(stmt!("now"), &[]).await?;
    Ok(now)
}
