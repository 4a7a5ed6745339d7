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

/// Which events to read; None means any.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub job_id: Option<String>,
    pub run_id: Option<i64>,
    pub address: Option<String>,
    pub kind: Option<String>,
    pub since: Option<Timestamp>,
    /// Before this instant.
    pub until: Option<Timestamp>,
}

/// The newest `limit` events, newest first; `before` continues a page.
pub async fn recent_events(
    db: &Db,
    filter: &EventFilter,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Recorded>, StoreError> {
    page(db, filter, Page::Before(before.unwrap_or(i64::MAX)), limit).await
}

/// Up to `limit` events after `after`, oldest first: for following along.
pub async fn events_after(
    db: &Db,
    filter: &EventFilter,
    after: i64,
    limit: i64,
) -> Result<Vec<Recorded>, StoreError> {
    page(db, filter, Page::After(after), limit).await
}

enum Page {
    Before(i64),
    After(i64),
}

async fn page(db: &Db, f: &EventFilter, page: Page, limit: i64) -> Result<Vec<Recorded>, StoreError> {
    let (statement, bound) = match page {
        Page::Before(id) => (stmt!("recent_events"), id),
        Page::After(id) => (stmt!("events_after"), id),
    };
    db.rows(
        statement,
        &[
            (&f.job_id, Type::TEXT),
            (&f.run_id, Type::INT8),
            (&f.address, Type::TEXT),
            (&f.kind, Type::TEXT),
            (&f.since, Type::TIMESTAMPTZ),
            (&bound, Type::INT8),
            (&limit, Type::INT8),
            (&f.until, Type::TIMESTAMPTZ),
        ],
    )
    .await
}
