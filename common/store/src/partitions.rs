//! History by weeks: partitions made ahead of need, and dropped when retention says so.

use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::types::Type;

use super::conn::Param;
use super::db::{Db, stmt};
use super::error::StoreError;

/// How long each kind of history is kept, in days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Finished runs, their attempts, and all that is told of them.
    pub runs: i32,
    /// Stored output.
    pub logs: i32,
    /// Events.
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

/// How many weeks ahead partitions exist: an outage of housekeeping that long is survived, and a
/// longer one too, by the default partition.
pub const AHEAD: i32 = 5;

/// Makes the partitions of this week and `ahead` more; returns the names of the new ones.
pub async fn ensure_partitions(db: &Db, ahead: i32) -> Result<Vec<String>, StoreError> {
    let made: Vec<(String,)> = db
        .rows(stmt!("ensure_partitions"), &[(&ahead, Type::INT4)])
        .await?;
    Ok(made.into_iter().map(|(name,)| name).collect())
}

/// Rows that one statement deletes from a table: some tenths of a second.
const SET: i32 = 10_000;

/// Deletes up to 10,000 rows of that age from each default partition, and as many keys of submissions; returns how many.
/// Rows that somebody holds are left for the next call.
pub async fn trim_older_than(db: &Db, kept: Retention) -> Result<usize, StoreError> {
    let params: [Param<'_>; 4] = [
        (&kept.runs, Type::INT4),
        (&kept.logs, Type::INT4),
        (&kept.events, Type::INT4),
        (&SET, Type::INT4),
    ];
    let trimmed: Option<(i64,)> = db.row(stmt!("trim_history"), &params).await?;
    Ok(trimmed.map_or(0, |(gone,)| usize::try_from(gone).unwrap_or(0)))
}

/// Drops the partitions that hold nothing younger than that; returns their names. One table a transaction, giving way to
/// whoever holds it: what could not be dropped is dropped by the next call.
pub async fn drop_older_than(db: &Db, kept: Retention) -> Result<Vec<String>, StoreError> {
    let mut dropped = Vec::new();
    loop {
        let gone: Vec<(String,)> = db
            .rows(
                stmt!("drop_partitions"),
                &[
                    (&kept.runs, Type::INT4),
                    (&kept.logs, Type::INT4),
                    (&kept.events, Type::INT4),
                ],
            )
            .await?;
        if gone.is_empty() {
            return Ok(dropped);
        }
        dropped.extend(gone.into_iter().map(|(name,)| name));
    }
}

/// A partition as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Partition {
    pub name: String,
    /// The table that it is a part of.
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
