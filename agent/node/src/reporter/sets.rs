//! How much is written down at once, and how often.

use std::time::Duration;

use farmhand_store::StoreError;

/// Live output reaches the database this often.
pub(super) const SHIP_EVERY: Duration = Duration::from_secs(1);

/// Attempts whose output is read together: each brings at most 4 MiB a round.
pub(super) const SHIP_SET: usize = 16;

/// How long waits what a statement took too long for, or what is broken: while it is tried again, everything else waits.
pub(super) const SLOW_AGAIN: Duration = Duration::from_secs(30);

/// The database did not answer in time. When it is away, the next connection says so.
pub(super) fn is_slow(error: &StoreError) -> bool {
    matches!(error, StoreError::TimedOut { .. })
}
