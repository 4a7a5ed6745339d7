//! Due instants become runs, a set of jobs at a time.

use farmhand_core::due::SkipFold;
use farmhand_core::making::Maker;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_postgres::types::Type;

use super::session::set;
use crate::conn::Param;
use crate::db::{Db, Transaction, stmt};
use crate::error::StoreError;

/// Jobs fired by one statement at most: bounds how long their rows stay locked.
const SET: usize = 1000;
/// Due instants in one statement, beyond those of its last job.
const INSTANTS: usize = 10_000;

/// Everything that the schedule says about one job between the `next_run` seen and now.
#[derive(Clone, Debug, Serialize)]
pub struct Fire {
    pub job_id: String,
    /// The revision of the schedule that this was computed from.
    pub rev: i64,
    /// The `next_run` this was computed from.
    pub seen: Timestamp,
    /// The next instant not decided here; None when the schedule ends.
    pub following: Option<Timestamp>,
    /// Instants in [seen, following) to run, oldest first.
    pub due: Vec<Timestamp>,
    /// How long after its instant the job fires, for its spread. A run is ready then, and not late.
    pub late_ms: i64,
    /// The other instants in [seen, following), by reason.
    pub skipped: Vec<SkipFold>,
}

/// What one maker is to make of one job.
#[derive(Debug, Default, Serialize)]
pub(super) struct Want<'a> {
    pub(super) job_id: &'a str,
    /// Instants to run, oldest first.
    pub(super) due: Vec<Timestamp>,
    /// None: the run is ready at once.
    pub(super) late_ms: Option<i64>,
    pub(super) skipped: Vec<Fold<'a>>,
    /// The only node that may have it.
    pub(super) node: Option<&'a str>,
    pub(super) params: Option<&'a Map<String, Value>>,
    pub(super) made: Option<Made<'a>>,
}

/// What is kept of how a run was made.
#[derive(Debug, Serialize)]
pub(super) struct Made<'a> {
    pub(super) parent_run: i64,
    pub(super) parents: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by_hand: Option<bool>,
}

/// Neighbouring instants without a run, and why.
#[derive(Debug, Serialize)]
pub(super) struct Fold<'a> {
    reason: &'a str,
    first: Timestamp,
    last: Timestamp,
    count: i64,
}

impl<'a> Want<'a> {
    /// One instant of a job: its run, or the record of why there is none.
    pub(super) fn one(job_id: &'a str, at: Timestamp, skip: Option<&'a str>) -> Self {
        let fold = |reason| Fold {
            reason,
            first: at,
            last: at,
            count: 1,
        };
        Self {
            job_id,
            due: skip.map_or_else(|| vec![at], |_| Vec::new()),
            skipped: skip.map(fold).into_iter().collect(),
            ..Self::default()
        }
    }
}

/// Makes runs of jobs that the transaction has locked.
pub(super) async fn make(
    tx: &mut Transaction,
    maker: Maker,
    wants: &[Want<'_>],
) -> Result<Vec<Fired>, StoreError> {
    tx.rows(
        stmt!("make_runs"),
        &[(&maker.as_str(), Type::TEXT), (&set(wants), Type::JSON)],
    )
    .await
}

/// Instants that a statement did not make runs of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Why: the word of a later release may be unknown here.
    pub reason: String,
    /// How many there are.
    pub count: i64,
}

/// A job of which this call made runs, or recorded why there are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fired {
    pub job_id: String,
    /// The runs made, waiting ones included.
    pub run_ids: Vec<i64>,
    /// Those that were asked for as skipped, and those that the statement skipped itself (`overlap`, `queue_full`, `replaced`,
    /// `no_node`).
    pub skipped: Vec<Skipped>,
    /// Runs that `overlap = "replace"` asks holders to end.
    pub cancelling: Vec<i64>,
}

/// Fires the jobs whose `next_run` and `rev` are still those seen and which are due by the database's
/// clock; jobs another agent is firing, or has fired, are left out of the answer.
///
/// The overlap rule is applied here. Of several instants of one job, `skip` and `queue` run the first
/// now when nothing is live and queue the rest; `replace` runs only the last.
pub async fn fire(db: &Db, fires: &[Fire]) -> Result<Vec<Fired>, StoreError> {
    fire_for(db, fires, 0).await
}

/// `fire` by one who claims right afterwards and has room for `room` runs: the farm is told only of more than that, and
/// of runs that may not be for everybody.
pub async fn fire_for(db: &Db, fires: &[Fire], mut room: usize) -> Result<Vec<Fired>, StoreError> {
    let mut fired = Vec::new();
    for part in sets(fires) {
        let of_part = fire_set(db, part, room).await?;
        room = room.saturating_sub(of_part.iter().map(|f| f.run_ids.len()).sum());
        fired.extend(of_part);
    }
    Ok(fired)
}

/// Sets that one statement is for.
fn sets(fires: &[Fire]) -> Vec<&[Fire]> {
    let (mut sets, mut from, mut instants) = (Vec::new(), 0, 0);
    for (at, fire) in fires.iter().enumerate() {
        if at - from == SET || instants >= INSTANTS {
            sets.push(&fires[from..at]);
            (from, instants) = (at, 0);
        }
        instants += fire.due.len();
    }
    if from < fires.len() {
        sets.push(&fires[from..]);
    }
    sets
}

async fn fire_set(db: &Db, fires: &[Fire], room: usize) -> Result<Vec<Fired>, StoreError> {
    let fires = set(fires);
    let room = i64::try_from(room).unwrap_or(i64::MAX);
    let params: [Param<'_>; 2] = [(&fires, Type::JSON), (&room, Type::INT8)];
    db.rows(stmt!("fire", often), &params).await
}

/// Lets go what waits in jobs that ends found locked, or that ended while claims were closed. A transaction of its own: these are other jobs, in an order of their own.
pub(super) async fn settle_pending(db: &Db) -> Result<(), StoreError> {
    let mut tx = db.transaction("settle").await?;
    let _: Vec<Value> = tx.rows(stmt!("settle_pending"), &[]).await?;
    tx.commit().await
}

/// Makes the rounds that continuous jobs lack: those of jobs that were applied while claims were closed.
pub(crate) async fn make_missing_rounds(db: &Db) -> Result<(), StoreError> {
    let mut tx = db.transaction("rounds").await?;
    let locked: Vec<(String,)> = tx.rows(stmt!("rounds_lock"), &[]).await?;
    let jobs: Vec<&str> = locked.iter().map(|(job,)| job.as_str()).collect();
    if !jobs.is_empty() {
        rounds(&mut tx, &jobs).await?;
    }
    tx.commit().await
}

/// Gives these jobs, which the transaction has locked, the rounds that their definitions ask for. A statement
/// of its own after the lock: its snapshot then holds every round that ended before.
pub(crate) async fn rounds(tx: &mut Transaction, jobs: &[&str]) -> Result<(), StoreError> {
    let _: Vec<Value> = tx.rows(stmt!("rounds"), &[(&jobs, Type::TEXT_ARRAY)]).await?;
    Ok(())
}
