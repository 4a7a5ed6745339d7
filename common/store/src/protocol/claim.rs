//! The race for due runs.

use std::collections::HashMap;
use std::sync::Arc;

pub use farmhand_core::attempt::{Attempt, Claimed};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;

use super::session::set;
use crate::LeaseIdentity;
use crate::db::{Db, stmt};
use crate::error::StoreError;

/// Claims up to `limit` runs that are due, in order of priority and readiness, out of `only` when given.
///
/// Nothing is claimed unless the caller's session is open, and neither cordoned nor
/// draining, and claims are open. Labels are those the session was opened with.
pub async fn claim(
    db: &Db,
    me: &LeaseIdentity,
    limit: i64,
    only: Option<&[i64]>,
) -> Result<Vec<Claimed>, StoreError> {
    let mut claimed: Vec<Claimed> = db
        .rows(
            stmt!("claim", often),
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.incarnation, Type::UUID),
                (&limit, Type::INT8),
                (&only, Type::INT8_ARRAY),
            ],
        )
        .await?;
    share_specs(&mut claimed);
    // A round that an apply renewed meanwhile: its revision is newer than what the statement sees.
    let unread: Vec<i64> = claimed
        .iter()
        .filter(|run| run.spec.is_null())
        .map(|run| run.run_id)
        .collect();
    if !unread.is_empty() {
        claimed.retain(|run| !run.spec.is_null());
        claimed.extend(read(db, me, &unread).await?);
    }
    Ok(claimed)
}

/// Runs that this session holds, as [`claim`] answers them.
pub(super) async fn read(db: &Db, me: &LeaseIdentity, run_ids: &[i64]) -> Result<Vec<Claimed>, StoreError> {
    db.rows(
        stmt!("claimed", often),
        &[
            (&run_ids, Type::INT8_ARRAY),
            (&me.address, Type::TEXT),
            (&me.session, Type::INT8),
        ],
    )
    .await
}

/// A definition comes with one run of its revision, and is all of theirs.
fn share_specs(claimed: &mut [Claimed]) {
    let mut specs: HashMap<(String, i64), Arc<Value>> = HashMap::new();
    for run in claimed.iter().filter(|run| !run.spec.is_null()) {
        specs.insert((run.job_id.clone(), run.rev), Arc::clone(&run.spec));
    }
    for run in claimed.iter_mut().filter(|run| run.spec.is_null()) {
        // One clone of a short text per run; a key of borrowed parts would take a type of its own.
        if let Some(spec) = specs.get(&(run.job_id.clone(), run.rev)) {
            run.spec = Arc::clone(spec);
        }
    }
}

/// An attempt's exec.
#[derive(Clone, Debug, Serialize)]
pub struct Started {
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
    /// When the command was started, by the node's clock.
    pub started_at: Timestamp,
}

/// An attempt that still ran when its start was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Begun {
    pub run_id: i64,
    /// Its row may be to be told.
    pub of_row: bool,
}

/// Records when attempts of this session were started, for people; returns those that still run.
pub async fn started(db: &Db, me: &LeaseIdentity, starts: &[Started]) -> Result<Vec<Begun>, StoreError> {
    db.rows(
        stmt!("started", often),
        &[
            (&me.address, Type::TEXT),
            (&me.session, Type::INT8),
            (&set(starts), Type::JSON),
        ],
    )
    .await
}
