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
#[schema(as = Event)]
pub struct EventRow {
    /// What happened, as a word.
    pub kind: String,
    /// How much it matters to the person on call.
    pub severity: Severity,
    /// The job that it is about, if it is about one.
    pub job_id: Option<String>,
    /// The run that it is about, if it is about one.
    pub run_id: Option<i64>,
    /// The attempt that it is about, if it is about one.
    pub attempt: Option<i32>,
    /// The node that tells of it, if one does.
    pub address: Option<String>,
    /// The session that it is about, if it is about one.
    pub session: Option<i64>,
    /// The fence of that attempt's claim.
    pub fence: Option<i64>,
    /// What else is known of it; its keys depend on the kind.
    pub detail: Value,
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recorded {
    /// Grows with each event that is stored.
    pub event_id: i64,
    /// When it was stored, by the database's clock.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: EventRow,
}

/// Records events in their order.
pub async fn record_events(db: &Db, events: &[EventRow]) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let _: Vec<Value> = db
        .rows(stmt!("record_events", often), &[(&Json(events), Type::JSON)])
        .await?;
    Ok(())
}
