//! Targets and messages, as people see them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;

use crate::db::{Db, stmt};
use crate::error::StoreError;
use farmhand_core::notify::{Channel, TargetSpec, Topic, stored, test_message};

/// A target and how it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetRow {
    pub name: String,
    /// None when jobs name it and nobody defines it any more, or when this release cannot read it.
    #[serde(deserialize_with = "stored")]
    pub spec: Option<TargetSpec>,
    pub source: String,
    /// That name it.
    pub jobs: Vec<String>,
    /// Messages that are still to be delivered.
    pub waiting: i64,
    /// Messages given up within the last day.
    pub failed: i64,
    pub last_delivery: Option<Timestamp>,
    /// Of the newest message that could not be delivered, within the last day.
    pub trouble: Option<Trouble>,
}

/// A channel whose messages do not get out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    pub channel: Channel,
    pub error: String,
    pub tries: i32,
    pub since: Timestamp,
    /// The address of the agent that tried last.
    pub sent_by: Option<String>,
    /// Given up.
    pub over: bool,
}

/// One message, as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotificationRow {
    pub id: Uuid,
    pub target: String,
    pub channel: Channel,
    pub topic: Topic,
    pub job_id: Option<String>,
    pub run_id: Option<i64>,
    /// `waiting`, `delivered` or `failed`.
    pub state: String,
    pub created_at: Timestamp,
    pub tries: i32,
    pub next_at: Timestamp,
    pub sent_by: Option<String>,
    pub ended_at: Option<Timestamp>,
    pub error: Option<String>,
}

/// Every target, in the order of names.
pub async fn targets(db: &Db) -> Result<Vec<TargetRow>, StoreError> {
    db.rows(stmt!("notify_targets"), &[]).await
}

/// Puts a test message into the outbox, one for each channel of the target.
pub async fn submit_test(
    db: &Db,
    target: &str,
    spec: &TargetSpec,
    by: &str,
) -> Result<Vec<Uuid>, StoreError> {
    #[derive(Deserialize)]
    struct Made {
        id: Uuid,
    }
    let channels: Vec<&str> = spec.channels().into_iter().map(Channel::as_str).collect();
    let made: Vec<Made> = db
        .rows(
            stmt!("notify_test"),
            &[
                (&target, Type::TEXT),
                (&channels, Type::TEXT_ARRAY),
                (&Json(test_message(target, by)), Type::JSONB),
            ],
        )
        .await?;
    Ok(made.into_iter().map(|m| m.id).collect())
}

/// These messages, webhooks first.
pub async fn notifications(db: &Db, ids: &[Uuid]) -> Result<Vec<NotificationRow>, StoreError> {
    db.rows(stmt!("notify_ended"), &[(&ids, Type::UUID_ARRAY)]).await
}
