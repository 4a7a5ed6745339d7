//! What is to run next: the queue, and the next instants of jobs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use crate::RunKind;
use crate::db::{Db, stmt};
use crate::error::StoreError;

/// A run that is due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueuedRun {
    pub run_id: i64,
    pub job_id: String,
    pub kind: RunKind,
    /// The only node that may run it.
    pub node: Option<String>,
    /// The instant that it is for.
    pub due_at: Timestamp,
    /// From when on it may be claimed.
    pub ready_at: Timestamp,
    /// What it waits for, if it may not be claimed yet.
    pub gate: Option<String>,
    /// Why it is due again, or waits.
    pub reason: Option<String>,
    /// Runs of a higher one are claimed first.
    pub priority: i32,
}

/// A job with its next instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NextNow {
    /// The job's name.
    pub job_id: String,
    /// That instant.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub next_run: Timestamp,
}

/// The first `rows` runs that are due, in the order in which they are claimed; those that may not be yet, last.
/// It sorts the whole queue: for a command, not for a page.
pub async fn queue(db: &Db, rows: i64) -> Result<Vec<QueuedRun>, StoreError> {
    db.rows(stmt!("queue"), &[(&rows, Type::INT8)]).await
}
