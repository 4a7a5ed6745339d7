//! Runs that take longer than usual, found by one agent at a time and shown by all.

use std::time::Duration;

use farmhand_core::document::from_millis;
use farmhand_core::durations::Exceeded;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::{Json, Type};

use super::db::{Db, stmt};
use super::error::StoreError;

/// A run that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Running {
    /// The run that is under way.
    pub run_id: i64,
    pub job_id: String,
    pub attempt: i32,
    pub node: String,
    lasted_ms: i64,
}

impl Running {
    /// Since its attempt started.
    pub fn lasted(&self) -> Duration {
        from_millis(self.lasted_ms)
    }
}

/// Writes down that these take longer than usual, and forgets those that have ended. Returns the runs that nobody had been
/// told of.
pub async fn mark(db: &Db, found: &[(&Running, Exceeded)]) -> Result<Vec<i64>, StoreError> {
    #[derive(Debug, Serialize)]
    struct Row {
        run_id: i64,
        attempt: i32,
        #[serde(flatten)]
        exceeded: Exceeded,
    }
    let given: Vec<Row> = (found.iter())
        .map(|(run, exceeded)| Row {
            run_id: run.run_id,
            attempt: run.attempt,
            exceeded: *exceeded,
        })
        .collect();
    let news: Vec<(i64,)> = db
        .rows(stmt!("slow_mark"), &[(&Json(&given), Type::JSON)])
        .await?;
    Ok(news.into_iter().map(|(run_id,)| run_id).collect())
}
