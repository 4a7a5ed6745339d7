//! One run in full.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::lanes::BarEnd;
use super::runs::RunItem;
use crate::Kind;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::logs::{LogExtent, log_extents};
use crate::progress::{Reported, progress};
use farmhand_core::run::RunState;
use farmhand_core::stream::Checkpoint;
use farmhand_core::usual::Exceeded;

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

/// One run in full.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RunDetail {
    /// The database's clock.
    pub db_now: Timestamp,
    pub run: RunRow,
    /// All of them, the oldest first.
    pub attempts: Vec<AttemptRow>,
    /// Who asked that it be cancelled.
    pub cancel_by: Option<String>,
    /// What its command last reported.
    pub progress: Option<Reported>,
    /// Of a stream: its checkpoint, read.
    #[schema(value_type = Option<Object>)]
    pub stream: Option<Checkpoint>,
    /// Which attempts have output stored, and how much.
    pub output: Vec<LogExtent>,
    /// The runs that were made together with it, itself included; at most 200.
    pub firing: Vec<RunItem>,
    /// Whether it is a flow: its tasks are read apart.
    pub flow: bool,
    /// Until when its holder's lease lasts; for people.
    pub lease_until: Option<Timestamp>,
    /// By when the holder must have ended the attempt: its timeout.
    pub hard_end: Option<Timestamp>,
    /// What it is measured by, when it takes longer than usual.
    #[schema(value_type = Option<crate::described::Exceeded>)]
    pub exceeded: Option<Exceeded>,
}

#[derive(Deserialize)]
struct About {
    db_now: Timestamp,
    cancel_by: Option<String>,
    flow: bool,
    lease_until: Option<Timestamp>,
    hard_end: Option<Timestamp>,
    exceeded: Option<Exceeded>,
    firing: Vec<RunItem>,
}

/// A run with its attempts; None when there is none, or its history has been dropped.
pub async fn run(db: &Db, run_id: i64) -> Result<Option<RunDetail>, StoreError> {
    let Some(row) = run_row(db, run_id).await? else {
        return Ok(None);
    };
    let params = [
        (&run_id as _, Type::INT8),
        (&row.job_id as _, Type::TEXT),
        (&row.rev as _, Type::INT8),
        (&row.firing as _, Type::INT8),
    ];
    let about = db.one::<About>(stmt!("reading_run"), &params);
    let (attempts, reported, output, about) = tokio::try_join!(
        attempts(db, run_id),
        progress(db, run_id),
        log_extents(db, run_id),
        about
    )?;
    let checkpoint = reported.as_ref().and_then(|r| r.checkpoint.as_deref());
    Ok(Some(RunDetail {
        db_now: about.db_now,
        stream: checkpoint.and_then(|text| Checkpoint::parse(text).ok()),
        attempts,
        cancel_by: about.cancel_by,
        progress: reported,
        output,
        firing: about.firing,
        flow: about.flow,
        lease_until: about.lease_until,
        hard_end: about.hard_end,
        exceeded: about.exceeded,
        run: row,
    }))
}

/// The row of a run alone; None when there is none, or its history has been dropped.
pub async fn run_row(db: &Db, run_id: i64) -> Result<Option<RunRow>, StoreError> {
    db.row(stmt!("run"), &[(&run_id, Type::INT8)]).await
}

/// The runs that were made together: shards, or the runs of each node; none for a run that was made alone.
pub async fn firing(db: &Db, firing: Option<i64>) -> Result<Vec<RunRow>, StoreError> {
    match firing {
        Some(_) => db.rows(stmt!("firing"), &[(&firing, Type::INT8)]).await,
        None => Ok(Vec::new()),
    }
}

/// A run's attempts, the oldest first.
async fn attempts(db: &Db, run_id: i64) -> Result<Vec<AttemptRow>, StoreError> {
    db.rows(stmt!("attempts"), &[(&run_id, Type::INT8)]).await
}
