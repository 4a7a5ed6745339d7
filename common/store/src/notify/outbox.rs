//! Messages that wait to be delivered.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::protocol::millis;
use farmhand_core::notify::{Channel, TargetSpec, Topic, stored};

/// A message leased to one sender.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Delivery {
    /// The same however often it is tried.
    pub id: Uuid,
    pub target: String,
    pub channel: Channel,
    pub topic: Topic,
    /// The job that it is about; none when it is about no single job.
    pub job_id: Option<String>,
    /// The run that it is about, if it is about one.
    pub run_id: Option<i64>,
    pub body: Value,
    /// When it was made, by the database's clock.
    pub created_at: Timestamp,
    /// This one included.
    pub tries: i32,
    /// Older than a day: this try is the last.
    pub old: bool,
    /// As the target is now; None when it is gone, or when this release cannot read it.
    #[serde(deserialize_with = "stored")]
    pub spec: Option<TargetSpec>,
}

/// What became of one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The target's service took it.
    Delivered,
    /// To be tried again after the pause.
    Again {
        /// What the service or the connection said.
        error: String,
        /// How long the message waits before the next try.
        pause: Duration,
    },
    /// Given up.
    Failed {
        /// What the service or the connection said.
        error: String,
    },
}

/// Leases up to `limit` messages for `lease`: nobody else is given them until then. `busy` are targets to be left
/// alone, as `channel target`.
pub async fn claim(
    db: &Db,
    address: &str,
    limit: usize,
    busy: &[String],
    lease: Duration,
) -> Result<Vec<Delivery>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    db.rows(
        stmt!("notify_claim"),
        &[
            (&address, Type::TEXT),
            (&limit, Type::INT8),
            (&busy, Type::TEXT_ARRAY),
            (&millis(lease), Type::INT8),
        ],
    )
    .await
}

/// Records what became of a try. False when the message has been tried again meanwhile, or has ended.
pub async fn sent(db: &Db, delivery: &Delivery, verdict: &Verdict) -> Result<bool, StoreError> {
    let (state, error, pause) = match verdict {
        Verdict::Delivered => ("delivered", None, Duration::ZERO),
        Verdict::Again { error, pause } => ("waiting", Some(error.as_str()), *pause),
        Verdict::Failed { error } => ("failed", Some(error.as_str()), Duration::ZERO),
    };
    let row: Option<Value> = db
        .row(
            stmt!("notify_sent"),
            &[
                (&delivery.id, Type::UUID),
                (&delivery.tries, Type::INT4),
                (&state, Type::TEXT),
                (&error, Type::TEXT),
                (&millis(pause), Type::INT8),
            ],
        )
        .await?;
    Ok(row.is_some())
}

/// Deletes messages that ended more than `days` ago.
pub async fn drop_older_than(db: &Db, days: i32) -> Result<(), StoreError> {
    db.raw(stmt!("notify_drop"), &[(&days, Type::INT4)])
        .await
        .map(drop)
}
