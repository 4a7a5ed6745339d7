//! What people and programs read: runs, attempts, nodes, leases, the farm at a glance.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Kind;
use super::db::{Db, stmt};
use super::error::StoreError;
use super::reading::BarEnd;
use farmhand_core::explain::Live;
use farmhand_core::run::RunState;

/// A run, live or finished, as the view `farmhand.run` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunRow {
    pub run_id: i64,
    pub job_id: String,
    pub rev: i64,
    #[schema(value_type = crate::described::Kind)]
    pub kind: Kind,
    pub instance: i32,
    pub instances: i32,
    /// The node that an each-node run belongs to.
    pub node: Option<String>,
    pub due_at: Timestamp,
    pub ready_at: Timestamp,
    #[schema(value_type = crate::described::RunState)]
    pub state: RunState,
    /// The address that holds it, or held it last.
    pub running_at: Option<String>,
    pub session: Option<i64>,
    pub attempt: i32,
    pub fence: Option<i64>,
    pub retries: i32,
    pub takeovers: i32,
    pub reason: Option<String>,
    pub params: Value,
    pub idempotency_key: Option<String>,
    pub submitted_by: Option<String>,
    pub parent_run: Option<i64>,
    pub cancel_requested: bool,
    pub created_at: Timestamp,
    pub claimed_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub cpu_ms: Option<i64>,
    pub max_rss_bytes: Option<i64>,
    pub output_bytes: Option<i64>,
    pub output_dropped: Option<i64>,
    /// A fold of neighbours: `count` due instants in [first_due, last_due].
    pub first_due: Timestamp,
    pub last_due: Timestamp,
    pub count: i64,
    /// Of a table job's row.
    pub key: Option<String>,
    /// The first run of those that were made together with this one.
    pub firing: Option<i64>,
    /// Of a triggered run: the run of each job that triggered it.
    pub parents: Option<Value>,
    /// Its instant is of no schedule.
    pub by_hand: bool,
}

/// One run.
pub async fn run(db: &Db, run_id: i64) -> Result<Option<RunRow>, StoreError> {
    db.row(stmt!("run"), &[(&run_id, Type::INT8)]).await
}

/// The runs that were made together: shards, or the runs of each node; none for a run that was made alone.
pub async fn firing(db: &Db, firing: Option<i64>) -> Result<Vec<RunRow>, StoreError> {
    match firing {
        Some(_) => db.rows(stmt!("firing"), &[(&firing, Type::INT8)]).await,
        None => Ok(Vec::new()),
    }
}

/// What is recorded for one due instant of a job's schedule: its runs, or the fold it was skipped in.
pub async fn runs_at(db: &Db, job_id: &str, due_at: Timestamp) -> Result<Vec<RunRow>, StoreError> {
    db.rows(
        stmt!("runs_at"),
        &[(&job_id, Type::TEXT), (&due_at, Type::TIMESTAMPTZ)],
    )
    .await
}

/// The runs of a job that have not ended, the oldest instant first; at most 1,000.
pub async fn live_runs(db: &Db, job_id: &str) -> Result<Vec<Live>, StoreError> {
    db.rows(stmt!("live_runs"), &[(&job_id, Type::TEXT)]).await
}

/// An attempt of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AttemptRow {
    pub attempt: i32,
    pub address: String,
    pub session: i64,
    pub fence: i64,
    pub claimed_at: Timestamp,
    pub started_at: Option<Timestamp>,
    /// None while it is running.
    pub ended_at: Option<Timestamp>,
    pub outcome: BarEnd,
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub cpu_ms: Option<i64>,
    pub max_rss_bytes: Option<i64>,
    pub output_bytes: Option<i64>,
    pub output_dropped: Option<i64>,
}

/// A run's attempts, the oldest first.
pub async fn attempts(db: &Db, run_id: i64) -> Result<Vec<AttemptRow>, StoreError> {
    db.rows(stmt!("attempts"), &[(&run_id, Type::INT8)]).await
}

/// A node and its present or last session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRow {
    pub address: String,
    pub name: String,
    pub session: i64,
    pub life: Uuid,
    pub beat: i64,
    /// As [`crate::reading::NodeState`] has it.
    pub state: String,
    pub open: bool,
    /// For people; no decision hangs on it.
    pub lease_until: Timestamp,
    pub ttl_ms: i64,
    pub slots: i32,
    /// Runs it holds.
    pub running: i64,
    pub labels: BTreeMap<String, String>,
    pub version: String,
    pub started_at: Timestamp,
    /// The database's clock minus the node's, as of its last renewal; for people. None while it is not known.
    pub clock_offset_ms: Option<i64>,
    /// Why the machine refused the run that it was to start last.
    pub cannot_start: Option<String>,
    /// When what still runs on a draining node is to be ended.
    pub drain_until: Option<Timestamp>,
    /// Who cordoned or drained it last, and when.
    pub withheld_by: Option<String>,
    pub withheld_at: Option<Timestamp>,
    /// The only one that acts for it, when it is bound to one.
    pub login: Option<String>,
}

/// Every node, or the one of an address, in the order of addresses.
pub async fn nodes(db: &Db, address: Option<&str>) -> Result<Vec<NodeRow>, StoreError> {
    db.rows(stmt!("nodes"), &[(&address, Type::TEXT)]).await
}

/// A session that holds runs or could claim some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseRow {
    pub address: String,
    pub session: i64,
    /// False for a session that ended while runs with `hold` live on.
    pub open: bool,
    pub state: String,
    pub lease_until: Timestamp,
    pub runs: Vec<HeldRun>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeldRun {
    pub run_id: i64,
    pub job_id: String,
    pub attempt: i32,
    pub fence: i64,
    pub claimed_at: Timestamp,
    pub cancel_requested: bool,
}

/// Open sessions, and ended ones that still hold runs.
pub async fn leases(db: &Db) -> Result<Vec<LeaseRow>, StoreError> {
    db.rows(stmt!("leases"), &[]).await
}

/// The farm at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FarmStatus {
    pub db_now: Timestamp,
    /// Nodes by state.
    pub nodes: BTreeMap<String, i64>,
    pub slots: i64,
    pub running: i64,
    /// Runs that could be claimed now.
    pub due: i64,
    /// Runs that wait: for an earlier run, a retry's pause, or their time.
    pub waiting: i64,
    pub oldest_ready: Option<Timestamp>,
    /// Live rounds of continuous jobs.
    pub rounds: i64,
    /// Instances that continuous jobs ask for.
    pub loops: i64,
    /// Jobs by state: enabled, paused, disabled.
    pub jobs: BTreeMap<String, i64>,
    /// Jobs whose next instant passed more than ten seconds ago.
    pub overdue_jobs: i64,
    pub next_run: Option<Timestamp>,
    /// Jobs whose last runs failed, the most failures first; at most 20.
    pub failing: Vec<FailingJob>,
    pub epoch: i64,
    pub claims_open: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FailingJob {
    pub job_id: String,
    pub consecutive_failures: i32,
    pub last_state: Option<String>,
    pub last_finished: Option<Timestamp>,
    pub last_success: Option<Timestamp>,
}

/// Reads what `farmhand status` shows.
pub async fn farm_status(db: &Db) -> Result<FarmStatus, StoreError> {
    one("farm_status", db.row(stmt!("farm_status"), &[]).await?)
}

/// The database's clock.
pub async fn now(db: &Db) -> Result<Timestamp, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        db_now: Timestamp,
    }
    let row: Row = one("now", db.row(stmt!("now"), &[]).await?)?;
    Ok(row.db_now)
}

fn one<T>(op: &'static str, row: Option<T>) -> Result<T, StoreError> {
    row.ok_or(StoreError::Decode {
        op,
        message: "no row".to_owned(),
    })
}
