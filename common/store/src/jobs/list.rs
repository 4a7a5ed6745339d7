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
    pub rev: i64,
    pub enabled: bool,
    pub paused: bool,
    pub paused_by: Option<String>,
    pub paused_at: Option<Timestamp>,
    pub pause_reason: Option<String>,
    pub scheduled: bool,
    pub next_run: Option<Timestamp>,
    pub decided_until: Option<Timestamp>,
    pub source: String,
    pub applied_by: String,
    pub applied_at: Timestamp,
    pub spec: Value,
    /// Where one of its runs is running.
    pub running_at: Option<String>,
}

/// Up to `limit` jobs in order of their names, after the name `after`.
pub async fn list_jobs(db: &Db, after: Option<&str>, limit: i64) -> Result<Vec<Listed>, StoreError> {
    let none: Option<&str> = None;
    db.rows(
        stmt!("list_jobs"),
        &[(&none, Type::TEXT), (&after, Type::TEXT), (&limit, Type::INT8)],
    )
    .await
}

/// One job, unless it is unknown or deleted.
pub async fn job(db: &Db, job_id: &str) -> Result<Option<Listed>, StoreError> {
    let none: Option<&str> = None;
    db.row(
        stmt!("list_jobs"),
        &[
            (&Some(job_id), Type::TEXT),
            (&none, Type::TEXT),
            (&1_i64, Type::INT8),
        ],
    )
    .await
}

/// A revision of a definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RevisionItem {
    pub rev: i64,
    pub source: String,
    pub applied_by: String,
    pub applied_at: Timestamp,
    pub spec: Value,
}

/// A job's revisions, newest first, also of a deleted job.
pub async fn revisions(db: &Db, job_id: &str, limit: i64) -> Result<Vec<RevisionItem>, StoreError> {
    let before: Option<i64> = None;
    db.rows(
        stmt!("reading_revisions"),
        &[(&job_id, Type::TEXT), (&before, Type::INT8), (&limit, Type::INT8)],
    )
    .await
}
