//! What somebody said is known, so that it does not lead the verdict.

use std::time::Duration;

use farmhand_core::cause::{Acknowledged, Cause};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;

use super::db::{Db, stmt};
use super::error::StoreError;

/// One that has not expired. The cause may be gone: then it says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// The cause that was acknowledged.
    pub cause: Cause,
    /// When it was acknowledged.
    pub at: Timestamp,
    /// By whom, until when and why.
    #[serde(flatten)]
    pub told: Acknowledged,
}

/// Acknowledges a cause, again if it was; returns until when.
pub async fn acknowledge(
    db: &Db,
    cause: &Cause,
    by: &str,
    lasts: Duration,
    note: Option<&str>,
) -> Result<Timestamp, StoreError> {
    let seconds = lasts.as_secs_f64();
    let (until,): (Timestamp,) = db
        .one(
            stmt!("acknowledge"),
            &[
                (&cause.kind.as_str(), Type::TEXT),
                (&cause.name, Type::TEXT),
                (&by, Type::TEXT),
                (&seconds, Type::FLOAT8),
                (&note, Type::TEXT),
            ],
        )
        .await?;
    Ok(until)
}

/// Takes it back; false when there is none.
pub async fn unacknowledge(db: &Db, cause: &Cause, by: &str) -> Result<bool, StoreError> {
    let row: Option<(bool,)> = db
        .row(
            stmt!("unacknowledge"),
            &[
                (&cause.kind.as_str(), Type::TEXT),
                (&cause.name, Type::TEXT),
                (&by, Type::TEXT),
            ],
        )
        .await?;
    Ok(row.is_some_and(|(done,)| done))
}

/// All that have not expired, what expires first at the top; at most 1,000.
pub async fn acknowledgements(db: &Db) -> Result<Vec<Acknowledgement>, StoreError> {
    db.rows(stmt!("acknowledgements"), &[]).await
}

/// Deletes what has expired.
pub(crate) async fn drop_expired(db: &Db) -> Result<(), StoreError> {
    db.raw(stmt!("drop_acknowledgements"), &[]).await.map(drop)
}
