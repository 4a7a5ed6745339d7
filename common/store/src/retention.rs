//! What is too old is forgotten: partitions whole, everything else in sets, each step whatever became of the others.

use std::future::Future;
use std::time::{Duration, Instant};

use super::db::Db;
use super::error::StoreError;
pub use super::partitions::Retention;
use super::{audit, notify, partitions, progress, streams, tables, tasks};

/// The audit is kept for a year and a month, or for as long as the runs where that is longer.
const AUDIT_DAYS: i32 = 396;

/// Forgets what is older than that. Partitions first, which is quick; then sets of 10,000 rows, each a transaction of its
/// own, for as long as `budget` at the most: what is left then is left to the next call.
/// Errors: The first step's that failed; the others were done all the same.
pub async fn forget(db: &Db, kept: Retention, budget: Duration) -> Result<(), StoreError> {
    let (until, days) = (Instant::now() + budget, kept.runs);
    let steps = [
        partitions::drop_older_than(db, kept).await.map(drop),
        in_sets(until, || partitions::trim_older_than(db, kept)).await,
        in_sets(until, || tasks::drop_older_than(db, days)).await,
        in_sets(until, || streams::drop_older_than(db, days)).await,
        in_sets(until, || tables::drop_older_than(db, days)).await,
        in_sets(until, || progress::drop_older_than(db, days)).await,
        notify::drop_older_than(db, days).await,
        audit::forget(db, AUDIT_DAYS.max(days)).await,
    ];
    steps.into_iter().collect()
}

/// Until a set finds nothing, or the time is over.
async fn in_sets<F>(until: Instant, set: impl Fn() -> F) -> Result<(), StoreError>
where
    F: Future<Output = Result<usize, StoreError>>,
{
    while set().await? > 0 && Instant::now() < until {}
    Ok(())
}
