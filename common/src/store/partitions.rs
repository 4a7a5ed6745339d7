//! History by weeks: partitions made ahead of need, and dropped when retention says so.

use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::types::Type;

use super::conn::Param;
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
            runs: 30,
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

/// Rows that one statement deletes from a table: some tenths of a second.
const SET: i32 = 10_000;

#[derive(Deserialize)]
struct Trimmed {
    gone: i64,
}

/// Drops the partitions that hold nothing younger than `retention`, and deletes what the default ones hold of that age;
/// returns the names of the dropped. Nobody who ends a run waits for the deleting: it goes in sets of 10,000 rows, and
/// before any lock that a drop takes. One table at a time, giving way to whoever holds it: what is in use is left to the
/// next call.
pub async fn drop_older_than(db: &Db, retention: Retention) -> Result<Vec<String>, StoreError> {
    let Retention { runs, logs, events } = retention;
    let kept: [Param<'_>; 4] = [
        (&runs, Type::INT4),
        (&logs, Type::INT4),
        (&events, Type::INT4),
        (&SET, Type::INT4),
    ];
    while db
        .row::<Trimmed>(stmt!("trim_history"), &kept)
        .await?
        .is_some_and(|t| t.gone > 0)
    {}
    let mut dropped = Vec::new();
    loop {
        let made: Vec<Made> = db.rows(stmt!("drop_partitions"), &kept[..3]).await?;
        if made.is_empty() {
            return Ok(dropped);
        }
        dropped.extend(made.into_iter().map(|m| m.name));
    }
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
