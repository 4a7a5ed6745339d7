//! Runs made by hand.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::acting::Acting;
use crate::db::{Db, no_row, stmt};
use crate::error::StoreError;
use farmhand_core::definition::Overlap;

/// A run to be made by hand.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The job of which a run is made.
    pub job_id: &'a str,
    /// The parameters that are given; a JSON object.
    pub params: &'a Value,
    /// With a key, the same run is answered for every repetition.
    pub key: Option<&'a str>,
    /// What else of the job is live matters as this says: the run is recorded as skipped, waits for it, replaces it, or
    /// runs beside it.
    pub overlap: Overlap,
    /// Who submits, when it is not the database's user.
    pub by: Option<&'a str>,
}

/// What a submission made, or would have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Submitted {
    /// The first run.
    pub run_id: i64,
    /// Runs that were made; none when an earlier submission with the same key made them.
    pub runs: i64,
    /// Of these, runs that were recorded as skipped because of others.
    pub skipped: i64,
    /// Other runs of the job that have not ended.
    pub live: i64,
}

/// Makes a run of a job by hand: `farmhand.submit`, with its checks. It runs beside whatever else of the job is
/// live. With a `key`, the same run is answered for every repetition.
/// Errors: `NotFound` for an unknown job, `Refused` for a disabled one and for parameters it does not take.
pub async fn submit(
    db: &Db,
    job_id: &str,
    params: &Value,
    due_at: Option<Timestamp>,
    key: Option<&str>,
) -> Result<i64, StoreError> {
    let (run_id,): (i64,) = db
        .one(
            stmt!("submit", often),
            &[
                (&job_id, Type::TEXT),
                (params, Type::JSONB),
                (&due_at, Type::TIMESTAMPTZ),
                (&key, Type::TEXT),
            ],
        )
        .await?;
    Ok(run_id)
}

/// As [`submit`], but what else of the job is live matters. Without `commit` nothing is done: the answer says what
/// would be.
pub async fn submit_overlapping(
    acting: &Acting,
    what: Submission<'_>,
    commit: bool,
) -> Result<Submitted, StoreError> {
    let Submission {
        job_id,
        params,
        key,
        overlap,
        by,
    } = what;
    let mut tx = acting.transaction("submit").await?;
    let submitted: Option<Submitted> = tx
        .row(
            stmt!("submit_run", often),
            &[
                (&job_id, Type::TEXT),
                (params, Type::JSONB),
                (&key, Type::TEXT),
                (&overlap.as_str(), Type::TEXT),
                (&by, Type::TEXT),
            ],
        )
        .await?;
    let submitted = submitted.ok_or_else(|| no_row("submit_run"))?;
    if commit && submitted.runs > 0 {
        tx.commit().await?;
    } else {
        tx.rollback().await?;
    }
    Ok(submitted)
}
