//! Definitions as they stand.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::db::{Db, stmt};
use crate::error::StoreError;
use farmhand_core::health::{JobFacts, JobHealth};

/// A job with its definition and what is known of its runs.
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
    pub running_at: Option<String>,
    /// Its instant passed more than ten seconds ago.
    pub overdue: bool,
    /// A run has been ready for a minute, or waited five for a pool, a lock or a rate.
    pub waiting: bool,
    pub last_run_started: Option<Timestamp>,
    pub last_finished: Option<Timestamp>,
    pub last_state: Option<String>,
    pub last_success: Option<Timestamp>,
    pub consecutive_failures: i32,
}

impl Listed {
    pub fn health(&self) -> JobHealth {
        JobHealth::of(&JobFacts {
            enabled: self.enabled,
            paused: self.paused,
            overdue: self.overdue,
            failures: self.consecutive_failures,
            waiting: self.waiting,
            running: self.running_at.is_some(),
        })
    }
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

/// One revision of a definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Revision {
    pub rev: i64,
    pub spec: Value,
    pub source: String,
    pub applied_by: String,
    pub applied_at: Timestamp,
}

/// A job's revisions, newest first, also of a deleted job.
pub async fn revisions(db: &Db, job_id: &str, limit: i64) -> Result<Vec<Revision>, StoreError> {
    db.rows(stmt!("revisions"), &[(&job_id, Type::TEXT), (&limit, Type::INT8)])
        .await
}
