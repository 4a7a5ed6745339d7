//! The farm as its metrics show it, read by one agent at a time.
//!
//! The lease on that is renewed by the statement that reads: an agent that cannot read loses it. Exclusive is
//! what is *exposed*, and that ends by the holder's own stopwatch before a challenger's allows another to begin.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_core::durations::SHORT;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::conn::Param;
use super::db::{Db, Stmt, stmt};
use super::decode;
use super::error::StoreError;
use super::notify::Watch;
use super::protocol::millis;
use super::slow::Running;
use super::survey;

/// Leases that are listed one by one; the rest is in the counts.
const LISTED: i64 = 100;
/// Runs that are looked at for whether they take longer than usual, the oldest first.
const LOOKED_AT: i64 = 5_000;

/// Who holds the lease, at which renewal. The nil holder is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Stand {
    /// Who holds it: a random number that an agent made when it started.
    pub holder: Uuid,
    /// Grows with each renewal.
    pub renewals: i64,
}

/// The farm at one instant of the database's clock.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct FarmSnapshot {
    /// Seconds since the epoch.
    pub at: f64,
    /// By state; `expired`: open past its lease; `lost`: its session was ended by another, within the last day.
    pub nodes: BTreeMap<String, i64>,
    /// `running`, `due`, `delayed` (its time has not come), or the gate that holds it.
    pub queue: BTreeMap<String, i64>,
    /// The newest epoch names the server that answers.
    pub claims_open: bool,
    /// Seconds; 0 while nothing is due.
    pub oldest_due_age: f64,
    /// Seconds, of the oldest message that waits to be delivered; 0 while none does.
    pub oldest_notification_age: f64,
    /// Leases on runs that are not as they should be, by state.
    pub unhealthy: BTreeMap<String, i64>,
    /// The oldest 100 of them.
    pub stuck: Vec<Stuck>,
    /// The 100 nodes lost last.
    pub missing: Vec<Missing>,
    /// Runs that take longer than usual, as the snapshot before found them.
    pub slow_runs: i64,
    /// Their jobs: the 100 with the runs that have taken longest.
    pub slow: Vec<SlowJob>,
    /// Rows that vacuum has not removed, as PostgreSQL's statistics estimate them, by table.
    pub dead_rows: BTreeMap<String, i64>,
    /// Enabled jobs, the first `max_jobs` by interest.
    #[serde(skip)]
    pub jobs: Vec<JobPoint>,
    /// Enabled jobs beyond these.
    #[serde(skip)]
    pub jobs_left_out: i64,
    /// Ages of the oldest snapshots held open: the most transactions, and the most seconds where they are known.
    #[serde(skip)]
    pub oldest_snapshot: (i64, f64),
    /// The runs that may take longer than usual, without those of which it is known.
    #[serde(skip)]
    pub running: Vec<Running>,
    /// One that took longer than usual has ended: [`crate::slow::mark`] forgets it.
    #[serde(skip)]
    pub slow_ended: bool,
    /// It is this agent's turn to look for missed deadlines.
    #[serde(skip)]
    pub watch: Option<Watch>,
}

impl FarmSnapshot {
    /// One with something of everything, for those who ask which metrics exist.
    pub fn sample() -> Self {
        Self {
            stuck: vec![Stuck {
                job_id: "job".to_owned(),
                node: "node".to_owned(),
                state: "stalled".to_owned(),
                age: 1.0,
            }],
            missing: vec![Missing {
                address: "node".to_owned(),
                age: 1.0,
            }],
            slow: vec![SlowJob {
                job_id: "job".to_owned(),
                age: 1.0,
            }],
            dead_rows: [("run_live".to_owned(), 1)].into(),
            jobs: vec![JobPoint {
                job_id: "job".to_owned(),
                rev: 1,
                waits: true,
                next_run: Some(Timestamp::UNIX_EPOCH),
                hard_ms: None,
                last_success: None,
                since: Timestamp::UNIX_EPOCH,
                consecutive_failures: 0,
                recent_takeovers: 0,
                total: 1,
            }],
            ..Self::default()
        }
    }
}

/// Runs of one job held by one node, in a state in which they should not be for long.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Stuck {
    pub job_id: String,
    pub node: String,
    /// `expired`, `stalled` or `overrun`.
    pub state: String,
    /// Seconds, of the oldest.
    pub age: f64,
}

/// A node whose session was ended by another agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Missing {
    pub address: String,
    /// Seconds since then.
    pub age: f64,
}

/// A job with runs that take longer than usual.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SlowJob {
    pub job_id: String,
    /// Seconds that the longest of them has taken.
    pub age: f64,
}

/// One job as its gauges show it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct JobPoint {
    pub job_id: String,
    /// The revision of the job's definition.
    pub rev: i64,
    /// Has a schedule, is not paused, and does not observe.
    pub waits: bool,
    /// The next due instant; none without a schedule.
    #[serde(default, deserialize_with = "decode::instant_or_none")]
    pub next_run: Option<Timestamp>,
    /// From a claim to the attempt's hard end, for a job with a timeout.
    pub hard_ms: Option<i64>,
    /// When a run of it last succeeded.
    #[serde(default, deserialize_with = "decode::instant_or_none")]
    pub last_success: Option<Timestamp>,
    /// The last success, definition or resumption: what its deadline counts from.
    #[serde(deserialize_with = "decode::instant")]
    pub since: Timestamp,
    /// How often in a row it failed.
    pub consecutive_failures: i64,
    /// Ends of nodes or wardens with which it lost attempts within the last hour; at least so many.
    pub recent_takeovers: i64,
    #[serde(default)]
    total: i64,
}

/// A revision's definition.
#[derive(Clone, Debug, Deserialize)]
pub struct Spec {
    pub job_id: String,
    /// The revision of the job's definition.
    pub rev: i64,
    /// The definition, as it is stored.
    pub spec: Value,
}

/// Who holds the lease now.
pub async fn stand(db: &Db) -> Result<Stand, StoreError> {
    db.one(stmt!("snapshot_stand"), &[]).await
}

/// Renews the lease and reads everything, of one instant. Without the lease nothing is read.
const TAKE: Stmt = Stmt {
    op: "snapshot",
    often: false,
    sql: concat!(
        "WITH renewed AS (",
        include_str!("sql/snapshot_renew.sql"),
        "), turn AS (",
        include_str!("sql/snapshot_turn.sql"),
        ") SELECT (SELECT to_jsonb(f) FROM (",
        include_str!("sql/snapshot_farm.sql"),
        ") f) AS farm, (SELECT coalesce(jsonb_agg(j), '[]') FROM (",
        include_str!("sql/snapshot_jobs.sql"),
        ") j) AS jobs, (SELECT to_jsonb(o) FROM (",
        include_str!("sql/oldest_snapshot.sql"),
        ") o) AS held, (SELECT coalesce(jsonb_agg(l), '[]') FROM (",
        include_str!("sql/slow_running.sql"),
        ") l) AS running, EXISTS (SELECT FROM farmhand.slow_run s WHERE NOT EXISTS (SELECT FROM farmhand.run_live r
            WHERE r.run_id = s.run_id)) AS slow_ended, (SELECT to_jsonb(w) FROM turn CROSS JOIN LATERAL (",
        include_str!("sql/notify_watch.sql"),
        ") w) AS watch FROM renewed"
    ),
};

#[derive(Deserialize)]
struct Row {
    farm: FarmSnapshot,
    jobs: Vec<JobPoint>,
    held: Option<survey::Snapshot>,
    running: Vec<Running>,
    slow_ended: bool,
    watch: Option<Watch>,
}

/// Renews the lease of `me` and reads the farm, all within `limit`, on the server as well. `None`: the lease is
/// neither ours nor still as `seen`. Takes the turn to look for missed deadlines as well, unless somebody took
/// it within `every`; `None` leaves it to others.
pub async fn take(
    db: &Db,
    me: Uuid,
    address: &str,
    seen: Stand,
    every: Option<Duration>,
    limit: Duration,
    max_jobs: i64,
) -> Result<Option<FarmSnapshot>, StoreError> {
    let (short, every) = (millis(SHORT), every.map(millis));
    let params: [Param<'_>; 9] = [
        (&LISTED, Type::INT8),
        (&max_jobs, Type::INT8),
        (&me, Type::UUID),
        (&address, Type::TEXT),
        (&seen.holder, Type::UUID),
        (&seen.renewals, Type::INT8),
        (&short, Type::INT8),
        (&LOOKED_AT, Type::INT8),
        (&every, Type::INT8),
    ];
    let Some(taken) = db.row_within::<Row>(TAKE, &params, limit).await? else {
        return Ok(None);
    };
    let total = taken.jobs.first().map_or(0, |j| j.total);
    let held = taken.held;
    Ok(Some(FarmSnapshot {
        jobs_left_out: total - i64::try_from(taken.jobs.len()).unwrap_or(i64::MAX),
        jobs: taken.jobs,
        oldest_snapshot: held.map_or((0, 0.0), |h| (h.transactions, h.seconds.unwrap_or(0.0))),
        running: taken.running,
        slow_ended: taken.slow_ended,
        watch: taken.watch,
        ..taken.farm
    }))
}

/// Lets the next agent have it at once.
pub async fn release(db: &Db, me: Uuid) -> Result<(), StoreError> {
    db.raw(stmt!("snapshot_release"), &[(&me, Type::UUID)])
        .await
        .map(drop)
}

/// The definitions of these revisions; those that are gone are left out.
pub async fn specs(db: &Db, wanted: &[(&str, i64)]) -> Result<Vec<Spec>, StoreError> {
    let given: Vec<Value> = wanted
        .iter()
        .map(|(job_id, rev)| json!({"job_id": job_id, "rev": rev}))
        .collect();
    db.rows(stmt!("snapshot_specs"), &[(&json!(given), Type::JSON)])
        .await
}
