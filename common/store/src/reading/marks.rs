//! Cheap signs that something has changed, for pages that are told rather than ask.

use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::types::Type;

use crate::db::{Db, stmt};
use crate::error::StoreError;

/// What moves when something changes. Compare with the marks before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Marks {
    /// Number of the last change of a definition, a pause or a resumption.
    pub jobs: i64,
    /// Number of the newest event.
    pub events: i64,
    /// Number of the newest run.
    pub runs: i64,
    /// Changes with sessions, states and slots of nodes, not with renewals.
    pub nodes: Option<String>,
    /// End of the run that ended last.
    pub ended_at: Option<Timestamp>,
    /// Attempts that are held, the newest 2,000.
    pub live: Vec<RunMark>,
    /// Runs that ended lately, the newest 500.
    pub ended: Vec<i64>,
}

/// One held attempt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RunMark {
    pub run_id: i64,
    pub attempt: i32,
    /// Whether its command has been started.
    pub started: bool,
    pub cancelling: bool,
}

/// Reads the marks; of ended runs those that ended after `since`.
pub async fn marks(db: &Db, since: Option<Timestamp>) -> Result<Marks, StoreError> {
    let row = db
        .row(stmt!("reading_marks"), &[(&since, Type::TIMESTAMPTZ)])
        .await?;
    Ok(row.unwrap_or_default())
}
