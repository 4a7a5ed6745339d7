//! History by weeks: partitions made ahead of need, and dropped when retention says so.

use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::types::Type;

use super::db::{Db, stmt};
use super::error::StoreError;

/// How many weeks ahead partitions exist: an outage of housekeeping that long is survived, and a
/// longer one too, by the default partition.
pub const AHEAD: i32 = 5;

/// How long each kind of history is kept, in days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Finished runs and their attempts.
    pub runs: i32,
    pub logs: i32,
    pub events: i32,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            runs: 90,
            logs: 30,
            events: 30,
        }
    }
}

#[derive(Deserialize)]
struct Made {
    name: String,
}

/// Makes the partitions of this week and `ahead` more; returns the names of the new ones.
pub async fn ensure_partitions(db: &Db, ahead: i32) -> Result<Vec<String>, StoreError> {
    let made: Vec<Made> = db
        .rows(stmt!("ensure_partitions"), &[(&ahead, Type::INT4)])
        .await?;
    Ok(made.into_iter().map(|m| m.name).collect())
}

/// Drops the partitions that hold nothing younger than `retention`; returns their names. One table at
/// a time, giving way to whoever holds it: what could not be dropped is dropped by the next call.
pub async fn drop_older_than(db: &Db, retention: Retention) -> Result<Vec<String>, StoreError> {
    let dropped: Vec<Made> = db
        .rows(
            stmt!("drop_partitions"),
            &[
                (&retention.runs, Type::INT4),
                (&retention.logs, Type::INT4),
                (&retention.events, Type::INT4),
            ],
        )
        .await?;
    Ok(dropped.into_iter().map(|m| m.name).collect())
}

/// A partition as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Partition {
    pub name: String,
    pub parent: String,
    /// None for the default partition.
    pub until: Option<Timestamp>,
    /// Rows that no other partition took; housekeeping was away for weeks when there are any.
    pub default_has_rows: bool,
}

/// Every partition of the history.
pub async fn list(db: &Db) -> Result<Vec<Partition>, StoreError> {
    db.rows(stmt!("list_partitions"), &[]).await
}
