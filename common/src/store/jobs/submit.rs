//! Runs made by hand.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::core::definition::Overlap;
use crate::store::db::{Db, stmt};
use crate::store::error::StoreError;

#[derive(Deserialize)]
struct Row {
    run_id: i64,
}

impl Row {
    fn run(row: Option<Self>) -> Result<i64, StoreError> {
        row.map(|r| r.run_id).ok_or(StoreError::Decode {
            op: "submit",
            message: "no row".to_owned(),
        })
    }
}

/// Makes a run of a job by hand: `farmhand.submit`, with its checks. It runs beside whatever else of the job is
/// live. With a `key`, the same run is answered for every repetition.
///
/// # Errors
/// `NotFound` for an unknown job, `Refused` for a disabled one and for parameters it does not take.
pub async fn submit(
    db: &Db,
    job_id: &str,
    params: &Value,
    due_at: Option<Timestamp>,
    key: Option<&str>,
) -> Result<i64, StoreError> {
    let row: Option<Row> = db
        .row(
            stmt!("submit", often),
            &[
                (&job_id, Type::TEXT),
                (params, Type::JSONB),
                (&due_at, Type::TIMESTAMPTZ),
                (&key, Type::TEXT),
            ],
        )
        .await?;
    Row::run(row)
}

/// As [`submit`], but what else of the job is live matters as `overlap` says: the run is recorded as skipped,
/// waits for it, or replaces it.
///
/// # Errors
/// As [`submit`].
pub async fn submit_overlapping(
    db: &Db,
    job_id: &str,
    params: &Value,
    key: Option<&str>,
    overlap: Overlap,
) -> Result<i64, StoreError> {
    #[derive(Deserialize)]
    struct Locked {
        mark: i64,
    }
    let due_at: Option<Timestamp> = None;
    // The job's lock keeps firings and promotions out until it is decided who waits for whom.
    let mut tx = db.transaction("submit").await?;
    let locked: Option<Locked> = tx.row(stmt!("submit_lock"), &[(&job_id, Type::TEXT)]).await?;
    let row: Option<Row> = tx
        .row(
            stmt!("submit", often),
            &[
                (&job_id, Type::TEXT),
                (params, Type::JSONB),
                (&due_at, Type::TIMESTAMPTZ),
                (&key, Type::TEXT),
            ],
        )
        .await?;
    let run = Row::run(row)?;
    // A repetition of a key is answered with the run of the first time.
    let fresh = locked.is_some_and(|locked| run > locked.mark);
    if fresh && overlap != Overlap::Allow {
        let word = match overlap {
            Overlap::Skip => "skip",
            Overlap::Queue => "queue",
            Overlap::Replace => "replace",
            Overlap::Allow => "allow",
        };
        let _: Option<Value> = tx
            .row(
                stmt!("submit_overlap"),
                &[(&job_id, Type::TEXT), (&word, Type::TEXT)],
            )
            .await?;
    }
    tx.commit().await?;
    Ok(run)
}
