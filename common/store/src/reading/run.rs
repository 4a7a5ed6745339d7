//! One run in full.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::bars::BarEnd;
use super::runs::RunItem;
use crate::RunKind;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::logs::{LogExtent, log_extents};
use crate::progress::{Reported, progress};
use crate::tasks::{TaskRow, tasks};
use farmhand_core::durations::Exceeded;
use farmhand_core::run::RunState;
use farmhand_core::stream::Checkpoint;

/// A run, live or finished, as the view `farmhand.run` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunRow {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// The revision by which it runs.
    pub rev: i64,
    /// What made it.
    pub kind: RunKind,
    /// Which one of its firing, from 0.
    pub instance: i32,
    /// How many there are in its firing.
    pub instances: i32,
    /// The node that an each-node run belongs to.
    pub node: Option<String>,
    /// The instant that it is for.
    pub due_at: Timestamp,
    /// From when on it may be claimed.
    pub ready_at: Timestamp,
    /// How far it has come, or how it ended.
    pub state: RunState,
    /// The address that holds it, or held it last.
    pub running_at: Option<String>,
    /// The session that holds it, or held it last.
    pub session: Option<i64>,
    /// Its last attempt; 0 before the first.
    pub attempt: i32,
    /// The fence of its last claim.
    pub fence: Option<i64>,
    /// How often it was retried.
    pub retries: i32,
    /// How often it was freed to be taken over.
    pub takeovers: i32,
    /// Why it waits, was skipped or ended so.
    pub reason: Option<String>,
    /// Its parameters; a JSON object.
    pub params: Value,
    /// The key under which it was submitted once.
    pub idempotency_key: Option<String>,
    /// Who submitted it; none when a schedule made it.
    pub submitted_by: Option<String>,
    /// The run that this one retries or replays, or that triggered it.
    pub parent_run: Option<i64>,
    /// Whether its cancellation was requested.
    pub cancel_requested: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its last attempt was claimed.
    pub claimed_at: Option<Timestamp>,
    /// When its command was started; none when it never was.
    pub started_at: Option<Timestamp>,
    /// When it ended; none while it has not.
    pub finished_at: Option<Timestamp>,
    /// What the command exited with; none when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; none when none did.
    pub signal: Option<i32>,
    /// Processor time that it used, in milliseconds; none when that is not known.
    pub cpu_ms: Option<i64>,
    /// The most memory that it used, in bytes; none when that is not known.
    pub max_rss_bytes: Option<i64>,
    /// How much it wrote, in bytes; none when that is not known.
    pub output_bytes: Option<i64>,
    /// How much of that the caps kept out, in bytes.
    pub output_dropped: Option<i64>,
    /// A fold of neighbours: `count` due instants in [first_due, last_due].
    pub first_due: Timestamp,
    /// The last of these instants.
    pub last_due: Timestamp,
    /// How many there are.
    pub count: i64,
    /// Of a table job's row.
    pub key: Option<String>,
    /// The first run of those that were made together with this one.
    pub firing: Option<i64>,
    /// Of a triggered run: the run of each job that triggered it.
    pub parents: Option<Value>,
    /// Its instant is of no schedule.
    pub by_hand: bool,
    /// How long its command ran, in milliseconds, by its node's clock; where no node measured it, until the end was recorded.
    pub ran_ms: Option<i64>,
}

/// An attempt of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AttemptRow {
    /// Which attempt of the run.
    pub attempt: i32,
    /// The node that ran it.
    pub address: String,
    /// The session that held it.
    pub session: i64,
    /// The fence of its claim.
    pub fence: i64,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When its command was started; none when it never was.
    pub started_at: Option<Timestamp>,
    /// None while it is running.
    pub ended_at: Option<Timestamp>,
    /// How it ended, or that it runs.
    pub outcome: BarEnd,
    /// Why it ended so.
    pub reason: Option<String>,
    /// What the command exited with; none when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; none when none did.
    pub signal: Option<i32>,
    /// Processor time that it used, in milliseconds; none when that is not known.
    pub cpu_ms: Option<i64>,
    /// The most memory that it used, in bytes; none when that is not known.
    pub max_rss_bytes: Option<i64>,
    /// How much it wrote, in bytes; none when that is not known.
    pub output_bytes: Option<i64>,
    /// How much of that the caps kept out, in bytes.
    pub output_dropped: Option<i64>,
    /// How long its command ran, in milliseconds, by its node's clock; where no node measured it, until the end was recorded.
    pub ran_ms: Option<i64>,
}

/// One run in full.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RunDetail {
    /// The database's clock.
    pub db_now: Timestamp,
    /// As the view shows it.
    pub run: RunRow,
    /// The last 1,000, the oldest first.
    pub attempts: Vec<AttemptRow>,
    /// Who asked that it be cancelled.
    pub cancel_by: Option<String>,
    /// What its command last reported.
    pub progress: Option<Reported>,
    /// Of a stream: its checkpoint, read.
    #[schema(value_type = Option<Object>)]
    pub stream: Option<Checkpoint>,
    /// Which of the last 1,000 attempts have output stored, and how much.
    pub output: Vec<LogExtent>,
    /// The runs that were made together with it, itself included; at most 200.
    pub firing: Vec<RunItem>,
    /// Whether it is a flow.
    pub flow: bool,
    /// Of a flow: the last end of each of its tasks.
    pub tasks: Vec<TaskRow>,
    /// Until when its holder's lease lasts; for people.
    pub lease_until: Option<Timestamp>,
    /// By when the holder must have ended the attempt: its timeout.
    pub hard_end: Option<Timestamp>,
    /// What it is measured by, when it takes longer than usual.
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
    let (attempts, tasks, reported, output, about) = tokio::try_join!(
        attempts(db, run_id),
        tasks(db, run_id),
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
        tasks,
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

/// A run's last attempts, the oldest first.
async fn attempts(db: &Db, run_id: i64) -> Result<Vec<AttemptRow>, StoreError> {
    db.rows(stmt!("attempts"), &[(&run_id, Type::INT8)]).await
}
