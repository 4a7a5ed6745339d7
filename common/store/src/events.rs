//! What happened, for people and for the history.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};
use utoipa::ToSchema;

use super::Severity;
use super::db::{Db, stmt};
use super::error::StoreError;

/// An event to record; its time is the database's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub kind: String,
    pub severity: Severity,
    pub job_id: Option<String>,
    pub run_id: Option<i64>,
    pub attempt: Option<i32>,
    pub address: Option<String>,
    pub session: Option<i64>,
    pub fence: Option<i64>,
    pub detail: Value,
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recorded {
    pub event_id: i64,
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

/// Records events in their order.
pub async fn record_events(db: &Db, events: &[Event]) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let _: Vec<Value> = db
        .rows(stmt!("record_events", often), &[(&Json(events), Type::JSON)])
        .await?;
    Ok(())
}
