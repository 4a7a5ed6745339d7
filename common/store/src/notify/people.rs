//! Targets and messages, as people see them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::{Json, Type};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::acting::Acting;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use farmhand_core::notify::{Channel, TargetSpec, Topic, stored, test_message};

/// A target and how it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TargetRow {
    pub name: String,
    /// None when jobs name it and nobody defines it any more, or when this release cannot read it.
    #[serde(deserialize_with = "stored")]
    #[schema(value_type = Option<Object>)]
    pub spec: Option<TargetSpec>,
    /// Where its definition came from: a file's name, or whatever applied it.
    pub source: String,
    pub jobs: Vec<String>,
    /// Messages that are still to be delivered.
    pub waiting: i64,
    /// Messages given up within the last day.
    pub failed: i64,
    /// When a message to it was last delivered.
    pub last_delivery: Option<Timestamp>,
    /// Of the newest message that could not be delivered, within the last day.
    pub trouble: Option<Trouble>,
}

/// A channel whose messages do not get out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NotificationTrouble)]
pub struct Trouble {
    /// How the message was to be sent.
    pub channel: Channel,
    /// What the service or the connection said.
    pub error: String,
    /// How often that message was tried.
    pub tries: i32,
    pub since: Timestamp,
    /// The address of the agent that tried last.
    pub sent_by: Option<String>,
    /// Given up.
    pub over: bool,
}

/// One message, as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotificationRow {
    /// The same however often it is tried.
    pub id: Uuid,
    pub target: String,
    pub channel: Channel,
    pub topic: Topic,
    /// The job that it is about; none when it is about no single job.
    pub job_id: Option<String>,
    /// The run that it is about, if it is about one.
    pub run_id: Option<i64>,
    /// `waiting`, `delivered` or `failed`.
    pub state: String,
    /// When it was made, by the database's clock.
    pub created_at: Timestamp,
    pub tries: i32,
    /// When it is tried next, while it waits.
    pub next_at: Timestamp,
    pub sent_by: Option<String>,
    /// When it was delivered or given up.
    pub ended_at: Option<Timestamp>,
    /// What the service or the connection said last.
    pub error: Option<String>,
}

/// Every target, in the order of names.
pub async fn targets(db: &Db) -> Result<Vec<TargetRow>, StoreError> {
    db.rows(stmt!("notify_targets"), &[]).await
}

/// Puts a test message into the outbox, one for each channel of the target.
pub async fn submit_test(
    acting: &Acting,
    target: &str,
    spec: &TargetSpec,
    by: &str,
) -> Result<Vec<Uuid>, StoreError> {
    let channels: Vec<&str> = spec.channels().into_iter().map(Channel::as_str).collect();
    let made: Vec<(Uuid,)> = acting
        .rows(
            stmt!("notify_test"),
            &[
                (&target, Type::TEXT),
                (&channels, Type::TEXT_ARRAY),
                (&Json(test_message(target, by)), Type::JSONB),
            ],
        )
        .await?;
    Ok(made.into_iter().map(|(id,)| id).collect())
}

/// These messages, webhooks first.
pub async fn notifications(db: &Db, ids: &[Uuid]) -> Result<Vec<NotificationRow>, StoreError> {
    db.rows(stmt!("notify_ended"), &[(&ids, Type::UUID_ARRAY)]).await
}
