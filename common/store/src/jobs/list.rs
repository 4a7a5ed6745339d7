//! Definitions as they stand.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use crate::db::{Db, stmt};
use crate::error::StoreError;

/// A job with its definition, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    pub job_id: String,
    /// The newest revision.
    pub rev: i64,
    /// Whether it may run at all.
    pub enabled: bool,
    /// Whether its instants are only recorded.
    pub observe: bool,
    pub paused: bool,
    /// Who paused it; none when it is not paused.
    pub paused_by: Option<String>,
    pub paused_at: Option<Timestamp>,
    /// Why it was paused, as far as they said.
    pub pause_reason: Option<String>,
    pub scheduled: bool,
    /// The next due instant; none without a schedule.
    pub next_run: Option<Timestamp>,
    /// Every due instant up to this one has its outcome.
    pub decided_until: Option<Timestamp>,
    /// Where the definition came from: a file's name, or whatever applied it.
    pub source: String,
    pub applied_by: String,
    /// When it was applied, by the database's clock.
    pub applied_at: Timestamp,
    /// The definition, as it is stored.
    pub spec: Value,
    /// Where one of its runs is running.
    pub running_at: Option<String>,
}

/// Up to `limit` jobs in order of their names, after the name `after`.
pub async fn list_jobs(db: &Db, after: Option<&str>, limit: i64) -> Result<Vec<Listed>, StoreError> {
    db.rows(
        stmt!("list_jobs"),
        &[
            (&None::<&str>, Type::TEXT),
            (&after, Type::TEXT),
            (&limit, Type::INT8),
        ],
    )
    .await
}

/// One job, unless it is unknown or deleted.
pub async fn job(db: &Db, job_id: &str) -> Result<Option<Listed>, StoreError> {
    db.row(
        stmt!("list_jobs"),
        &[
            (&Some(job_id), Type::TEXT),
            (&None::<&str>, Type::TEXT),
            (&1_i64, Type::INT8),
        ],
    )
    .await
}

/// A revision of a definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RevisionItem {
    /// Its number; it grows with each change of the job.
    pub rev: i64,
    /// Where it came from: a file's name, or whatever applied it.
    pub source: String,
    /// Who applied it.
    pub applied_by: String,
    /// When it was applied, by the database's clock.
    pub applied_at: Timestamp,
    /// The definition, as it is stored.
    pub spec: Value,
}

/// A job's revisions, newest first, also of a deleted job.
pub async fn revisions(db: &Db, job_id: &str, limit: i64) -> Result<Vec<RevisionItem>, StoreError> {
    revisions_before(db, job_id, None, limit).await
}

/// The same, of those before one of them.
pub(crate) async fn revisions_before(
    db: &Db,
    job_id: &str,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<RevisionItem>, StoreError> {
    db.rows(
        stmt!("reading_revisions"),
        &[(&job_id, Type::TEXT), (&before, Type::INT8), (&limit, Type::INT8)],
    )
    .await
}

/// How many runs of a job wait and begin also when the job is paused or deleted; at most 1,000.
pub async fn still_begin(db: &Db, job_id: &str) -> Result<i64, StoreError> {
    let row: Option<(i64,)> = db.row(stmt!("still_begin"), &[(&job_id, Type::TEXT)]).await?;
    Ok(row.map_or(0, |(count,)| count))
}
