//! What running commands report about how far they have come.

pub use farmhand_core::stream::MAX_CHECKPOINT;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::db::{Db, stmt};
use super::error::StoreError;
use super::protocol::set;

/// What an attempt last reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
    pub address: String,
    pub session: i64,
    /// None: a sign of life only; the checkpoint before it stays.
    pub checkpoint: Option<String>,
}

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reported {
    /// The attempt that reported last.
    pub attempt: i32,
    /// When that was stored, by the database's clock.
    pub at: Timestamp,
    /// The line that it reported; none when it has only shown signs of life.
    pub checkpoint: Option<String>,
    /// How long ago that was stored, in milliseconds.
    pub age_ms: i64,
}

/// Stores a set of reports; answers with the runs that still were the reporters'. Of the others nothing is
/// changed.
pub async fn record_progress(db: &Db, reports: &[Progress]) -> Result<Vec<i64>, StoreError> {
    if reports.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<(i64,)> = db
        .rows(stmt!("record_progress"), &[(&set(reports), Type::JSON)])
        .await?;
    Ok(rows.into_iter().map(|(run_id,)| run_id).collect())
}

/// What a run's command last reported, if it ever did.
pub async fn progress(db: &Db, run_id: i64) -> Result<Option<Reported>, StoreError> {
    db.row(stmt!("progress"), &[(&run_id, Type::INT8)]).await
}

/// Deletes up to 10,000 reports older than `days` of runs that have ended; returns how many.
pub async fn drop_older_than(db: &Db, days: i32) -> Result<usize, StoreError> {
    let rows: Vec<(i64,)> = db.rows(stmt!("drop_progress"), &[(&days, Type::INT4)]).await?;
    Ok(rows.len())
}
