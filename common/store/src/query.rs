//! What people and programs read of runs and attempts.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

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
