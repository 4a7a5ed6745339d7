//! Runs for instants of the past that have none.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::types::Type;

use crate::acting::Acting;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use farmhand_core::health::JobState;

/// The answer to `backfill`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backfilled {
    /// The runs made, the oldest instant's first; instants that have a run by now got no second one.
    Done {
        run_ids: Vec<i64>,
    },
    /// The definition is not the one the instants were computed from.
    Changed,
    Disabled,
    /// Nothing of the job is executed.
    Observes,
    /// An each-node job, and no node that may run it.
    NoNode,
    NotFound,
}

/// Makes runs of kind `backfill`. They wait for each other and for what else of the job is live, the oldest instant
/// first.
pub async fn backfill(
    acting: &Acting,
    job_id: &str,
    rev: i64,
    instants: &[Timestamp],
    by: &str,
) -> Result<Backfilled, StoreError> {
    #[derive(Deserialize)]
    struct Locked {
        rev: i64,
        /// The state of a job that makes none.
        refused: Option<JobState>,
    }
    #[derive(Deserialize)]
    struct Row {
        placed: bool,
        run_ids: Vec<i64>,
    }
    let mut tx = acting.transaction("backfill").await?;
    let locked: Option<Locked> = tx.row(stmt!("backfill_lock"), &[(&job_id, Type::TEXT)]).await?;
    let refused = match locked {
        None => Some(Backfilled::NotFound),
        Some(job) if job.refused == Some(JobState::Disabled) => Some(Backfilled::Disabled),
        Some(job) if job.refused.is_some() => Some(Backfilled::Observes),
        Some(job) if job.rev != rev => Some(Backfilled::Changed),
        Some(_) => None,
    };
    if let Some(refused) = refused {
        tx.rollback().await?;
        return Ok(refused);
    }
    let row: Option<Row> = tx
        .row(
            stmt!("backfill"),
            &[
                (&job_id, Type::TEXT),
                (&instants, Type::TIMESTAMPTZ_ARRAY),
                (&by, Type::TEXT),
            ],
        )
        .await?;
    match row {
        Some(Row {
            placed: true,
            run_ids,
        }) => {
            tx.commit().await?;
            Ok(Backfilled::Done { run_ids })
        }
        _ => {
            tx.rollback().await?;
            Ok(Backfilled::NoNode)
        }
    }
}

/// What says from when on it is known which instants of a job ran.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct InstantsKnown {
    /// When the job was applied for the first time: it ran at no instant before.
    pub first_applied: Timestamp,
    /// Since when it has its present schedule.
    pub scheduled: Timestamp,
    /// Since when the history of runs is kept.
    pub kept: Timestamp,
    /// How many runs one instant makes now.
    pub runs: i64,
}

/// From when on it is known which instants of a job ran; None when there is no such job.
pub async fn instants_known(db: &Db, job_id: &str) -> Result<Option<InstantsKnown>, StoreError> {
    db.row(stmt!("instants_known"), &[(&job_id, Type::TEXT)]).await
}

/// The instants of a job in [from, to) that have a run, or that cron was to run while the job observed: then true.
pub async fn ran_instants(
    db: &Db,
    job_id: &str,
    from: Timestamp,
    to: Timestamp,
) -> Result<BTreeMap<Timestamp, bool>, StoreError> {
    let rows: Vec<(Timestamp, bool)> = db
        .rows(
            stmt!("ran_instants"),
            &[
                (&job_id, Type::TEXT),
                (&from, Type::TIMESTAMPTZ),
                (&to, Type::TIMESTAMPTZ),
            ],
        )
        .await?;
    Ok(rows.into_iter().collect())
}
