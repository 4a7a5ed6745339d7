//! Ends of a flow's tasks.

use std::fmt::Debug;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};
use utoipa::ToSchema;

use super::db::{Db, Stmt, stmt};
use super::error::StoreError;
use farmhand_core::attempt::Attempt;

/// How a task ended. `cpu_ms` and `max_rss_bytes` are its process's and those it waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskEnd {
    /// The task's name in its flow.
    pub task: String,
    /// How it ended, as a word.
    pub outcome: String,
    /// When it was started; none when it never was.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What the command exited with; none when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; none when none did.
    pub signal: Option<i32>,
    /// Processor time that it used, in milliseconds; none when that is not known.
    pub cpu_ms: Option<i64>,
    /// The most memory that it used, in bytes; none when that is not known.
    pub max_rss_bytes: Option<i64>,
    /// Why it ended so.
    pub reason: Option<String>,
    /// The tasks because of which it was skipped, up to the one that failed.
    pub blame: Vec<String>,
}

/// A task's last end in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskRow {
    /// 0: taken over from the run that this one repeats.
    pub attempt: i32,
    /// The node that ran it.
    pub address: Option<String>,
    /// How it ended.
    #[serde(flatten)]
    pub end: TaskEnd,
}

/// Records ends of an attempt that `session` holds; returns how many were new. Nothing is recorded when the
/// run has moved on.
pub async fn record_tasks(db: &Db, of: Attempt, session: i64, ends: &[TaskEnd]) -> Result<usize, StoreError> {
    record(db, stmt!("record_tasks"), of, session, ends).await
}

/// Ends of parts of an attempt that `session` holds; how many were new.
pub(crate) async fn record<T: Serialize + Debug + Sync>(
    db: &Db,
    statement: Stmt,
    of: Attempt,
    session: i64,
    ends: &[T],
) -> Result<usize, StoreError> {
    let rows: Vec<Value> = db
        .rows(
            statement,
            &[
                (&of.run_id, Type::INT8),
                (&of.attempt, Type::INT4),
                (&of.fence, Type::INT8),
                (&session, Type::INT8),
                (&Json(ends), Type::JSONB),
            ],
        )
        .await?;
    Ok(rows.len())
}

/// The last end of every task of a run, by name.
pub async fn tasks(db: &Db, run_id: i64) -> Result<Vec<TaskRow>, StoreError> {
    db.rows(stmt!("tasks"), &[(&run_id, Type::INT8)]).await
}

/// Deletes up to 10,000 ends older than `days` of runs that have ended; returns how many.
pub async fn drop_older_than(db: &Db, days: i32) -> Result<usize, StoreError> {
    let rows: Vec<Value> = db.rows(stmt!("drop_tasks"), &[(&days, Type::INT4)]).await?;
    Ok(rows.len())
}
