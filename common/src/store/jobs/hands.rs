//! What people do by hand, or through `farmhand.submit`.

use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::types::{Json, Type};

use super::apply::bump;
use crate::store::Final;
use crate::store::db::{Db, stmt};
use crate::store::error::StoreError;
use crate::store::protocol::{SkipFold, promote, rounds};

/// The answer to `pause`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paused {
    Done,
    Already,
    /// `fire` these instants first, or they would have no outcome.
    Overdue {
        rev: i64,
        next_run: Timestamp,
    },
    NotFound,
}

/// Stops a job's schedule; submitted runs go on.
pub async fn pause(db: &Db, job_id: &str, by: &str, reason: Option<&str>) -> Result<Paused, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        rev: i64,
        was_paused: bool,
        overdue: Option<Timestamp>,
    }
    let mut tx = db.transaction("pause").await?;
    let seq = bump(&mut tx).await?;
    let row: Option<Row> = tx
        .row(
            stmt!("pause"),
            &[
                (&job_id, Type::TEXT),
                (&seq, Type::INT8),
                (&by, Type::TEXT),
                (&reason, Type::TEXT),
            ],
        )
        .await?;
    let answer = match row {
        None => Paused::NotFound,
        Some(Row { was_paused: true, .. }) => Paused::Already,
        Some(Row {
            overdue: Some(next_run),
            rev,
            ..
        }) => Paused::Overdue { rev, next_run },
        Some(_) => {
            rounds(&mut tx, &[job_id]).await?;
            tx.commit().await?;
            return Ok(Paused::Done);
        }
    };
    tx.rollback().await?;
    Ok(answer)
}

/// The answer to `resume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resumed {
    Done,
    NotPaused,
    /// `next_run` must be after this.
    Stale {
        decided_until: Timestamp,
    },
    NotFound,
}

/// Starts a paused job's schedule again at `next_run`, and records what fell into the pause.
pub async fn resume(
    db: &Db,
    job_id: &str,
    next_run: Option<Timestamp>,
    skipped: &[SkipFold],
    by: &str,
) -> Result<Resumed, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        was_paused: bool,
        stale: Option<Timestamp>,
    }
    let mut tx = db.transaction("resume").await?;
    let seq = bump(&mut tx).await?;
    let row: Option<Row> = tx
        .row(
            stmt!("resume"),
            &[
                (&job_id, Type::TEXT),
                (&seq, Type::INT8),
                (&by, Type::TEXT),
                (&next_run, Type::TIMESTAMPTZ),
                (&Json(skipped), Type::JSON),
            ],
        )
        .await?;
    let answer = match row {
        None => Resumed::NotFound,
        Some(Row {
            was_paused: false, ..
        }) => Resumed::NotPaused,
        Some(Row {
            stale: Some(decided_until),
            ..
        }) => Resumed::Stale { decided_until },
        Some(_) => {
            rounds(&mut tx, &[job_id]).await?;
            tx.commit().await?;
            return Ok(Resumed::Done);
        }
    };
    tx.rollback().await?;
    Ok(answer)
}

/// The answer to `cancel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It had not been started; it is cancelled.
    Now,
    /// Its holder was asked; the holder's end turns it into cancelled.
    Requested {
        node: String,
    },
    AlreadyFinal(Final),
    NotFound,
}

/// Cancels a run.
pub async fn cancel(db: &Db, run_id: i64, by: &str) -> Result<Cancelled, StoreError> {
    #[derive(Deserialize)]
    struct Live {
        job_id: String,
        node: Option<String>,
    }
    #[derive(Deserialize)]
    struct Ended {
        state: Final,
    }
    let live: Option<Live> = db
        .row(stmt!("cancel"), &[(&run_id, Type::INT8), (&by, Type::TEXT)])
        .await?;
    match live {
        Some(Live { node: Some(node), .. }) => Ok(Cancelled::Requested { node }),
        Some(Live { job_id, node: None }) => {
            if let Err(error) = promote(db, &[job_id]).await {
                tracing::warn!(%error, "queued runs wait for the next sweep");
            }
            Ok(Cancelled::Now)
        }
        None => {
            let ended: Option<Ended> = db.row(stmt!("final_state"), &[(&run_id, Type::INT8)]).await?;
            Ok(ended.map_or(Cancelled::NotFound, |e| Cancelled::AlreadyFinal(e.state)))
        }
    }
}

/// The answer to `retry_run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retried {
    /// The new run, of the job's present revision with the old run's parameters.
    Run(i64),
    NotFinal,
    NotFound,
    /// The job was deleted.
    NoJob,
    /// Another run for the same row of a table has not ended.
    RowLive,
}

/// Makes a new run from a finished one. With `from_failed`, a flow does not run again what succeeded.
pub async fn retry_run(db: &Db, run_id: i64, by: &str, from_failed: bool) -> Result<Retried, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        ended: bool,
        live: bool,
        row_live: bool,
        new_run: Option<i64>,
    }
    let row: Option<Row> = db
        .row(
            stmt!("retry_run"),
            &[
                (&run_id, Type::INT8),
                (&by, Type::TEXT),
                (&from_failed, Type::BOOL),
            ],
        )
        .await?;
    Ok(match row {
        Some(Row {
            new_run: Some(id), ..
        }) => Retried::Run(id),
        Some(Row { live: true, .. }) => Retried::NotFinal,
        Some(Row { row_live: true, .. }) => Retried::RowLive,
        Some(Row { ended: true, .. }) => Retried::NoJob,
        _ => Retried::NotFound,
    })
}
