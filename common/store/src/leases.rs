//! Named leases, for `farmhand lock`: what others call as `farmhand.acquire`, with the stopwatch on this side.

use std::time::Duration;

use serde::Deserialize;
use tokio_postgres::types::Type;

use super::db::{Db, Stmt, stmt};
use super::error::StoreError;

/// What became of the wish for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// It is the caller's, under this fence.
    Granted(i64),
    /// `key` is another after each renewal. Whoever has seen it unchanged for as long as it takes to challenge a lease of this
    /// `ttl` asks again with it. Without `ttl`: a run of a job has it, until it ends.
    Held {
        /// What the lease shows.
        key: String,
        /// How long it lasts from a renewal.
        ttl: Option<Duration>,
    },
    Closed,
}

/// Errors: The database is away or denies it; or the lease is another login's, or its TTL cannot be.
pub async fn acquire(db: &Db, name: &str, ttl: Duration, seen: Option<&str>) -> Result<Acquired, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        fence: Option<i64>,
        held: Option<String>,
        held_ttl_ms: Option<u64>,
    }
    let ttl_ms = i32::try_from(ttl.as_millis()).unwrap_or(i32::MAX);
    let row: Option<Row> = db
        .row(
            stmt!("lease_acquire"),
            &[(&name, Type::TEXT), (&ttl_ms, Type::INT4), (&seen, Type::TEXT)],
        )
        .await?;
    Ok(match row {
        Some(Row {
            fence: Some(fence), ..
        }) => Acquired::Granted(fence),
        Some(Row {
            held: Some(key),
            held_ttl_ms,
            ..
        }) => Acquired::Held {
            key,
            ttl: held_ttl_ms.map(Duration::from_millis),
        },
        _ => Acquired::Closed,
    })
}

/// False: it is no longer the caller's.
pub async fn renew(db: &Db, name: &str, fence: i64) -> Result<bool, StoreError> {
    still_held(db, stmt!("lease_renew"), name, fence).await
}

/// False: it was no longer the caller's.
pub async fn release(db: &Db, name: &str, fence: i64) -> Result<bool, StoreError> {
    still_held(db, stmt!("lease_release"), name, fence).await
}

/// Whose lease was freed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LeftBehind {
    /// The program that had it, as it named itself.
    pub client: String,
    /// The login by which that program had it.
    pub login: String,
}

/// Frees a name for the runs that wait for it, where its lease still shows `seen`. Only after it was seen unchanged for as long
/// as it takes to challenge it.
pub async fn free(db: &Db, name: &str, seen: &str) -> Result<Option<LeftBehind>, StoreError> {
    db.row(stmt!("lease_free"), &[(&name, Type::TEXT), (&seen, Type::TEXT)])
        .await
}

async fn still_held(db: &Db, stmt: Stmt, name: &str, fence: i64) -> Result<bool, StoreError> {
    let row: Option<(bool,)> = db.row(stmt, &[(&name, Type::TEXT), (&fence, Type::INT8)]).await?;
    Ok(row.is_some_and(|(own,)| own))
}
