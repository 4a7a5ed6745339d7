//! What people do by hand, or through `farmhand.submit`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use super::apply::{Present, bump};
use super::pauses::{self, Fell};
use crate::acting::Acting;
use crate::conn::Param;
use crate::db::{Db, Transaction, stmt};
use crate::error::StoreError;
use crate::event::EventKind;
use crate::protocol::rounds;
use farmhand_core::due::{SkipFold, SkipReason};
use farmhand_core::health::JobState;
use farmhand_core::run::RunState;

/// The answer to `pause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// The job is paused now.
    Done,
    /// It was paused before.
    Already,
    NotFound,
}

/// Stops a job's schedule; submitted runs go on. What was due and not fired yet falls into the pause: nothing is fired, so this works
/// while claims are closed, too.
pub async fn pause(
    acting: &Acting,
    job_id: &str,
    by: &str,
    reason: Option<&str>,
) -> Result<Paused, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        was_paused: bool,
    }
    let mut tx = acting.transaction("pause").await?;
    let seq = bump(&mut tx).await?;
    let present: Option<Present> = tx
        .row(
            stmt!("apply_lock"),
            &[(&&[job_id][..], Type::TEXT_ARRAY), (&false, Type::BOOL)],
        )
        .await?;
    let Some(present) = present.filter(|job| !job.deleted) else {
        tx.rollback().await?;
        return Ok(Paused::NotFound);
    };
    // As of the same moment, so that no instant lies between what is recorded now and what is when the pause ends.
    pauses::record_so_far(&mut tx, [(&present, SkipReason::Paused)], by).await?;
    let row: Option<Row> = tx
        .row(
            stmt!("pause"),
            &[
                (&job_id, Type::TEXT),
                (&seq, Type::INT8),
                (&by, Type::TEXT),
                (&reason, Type::TEXT),
                (&present.now, Type::TIMESTAMPTZ),
            ],
        )
        .await?;
    if row.is_none_or(|row| row.was_paused) {
        tx.rollback().await?;
        return Ok(Paused::Already);
    }
    rounds(&mut tx, &[job_id]).await?;
    tx.commit().await?;
    Ok(Paused::Done)
}

/// The answer to `resume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// The job is no longer paused.
    Done,
    /// It was not paused.
    NotPaused,
    /// `next_run` must be after this.
    Stale {
        /// The last instant that has an outcome.
        decided_until: Timestamp,
    },
    /// It has another revision by now.
    Changed,
    NotFound,
}

/// Starts a paused job's schedule again at `next_run`, as revision `rev` has it, and records what fell into the pause.
pub async fn resume(
    acting: &Acting,
    job_id: &str,
    rev: i64,
    next_run: Option<Timestamp>,
    skipped: &[SkipFold],
    by: &str,
) -> Result<Resumed, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        was_paused: bool,
        changed: bool,
        stale: Option<Timestamp>,
    }
    let mut tx = acting.transaction("resume").await?;
    let seq = bump(&mut tx).await?;
    let row: Option<Row> = tx
        .row(
            stmt!("resume"),
            &[
                (&job_id, Type::TEXT),
                (&seq, Type::INT8),
                (&by, Type::TEXT),
                (&next_run, Type::TIMESTAMPTZ),
                (&rev, Type::INT8),
            ],
        )
        .await?;
    let answer = match row {
        None => Resumed::NotFound,
        Some(Row {
            was_paused: false, ..
        }) => Resumed::NotPaused,
        Some(Row { changed: true, .. }) => Resumed::Changed,
        Some(Row {
            stale: Some(decided_until),
            ..
        }) => Resumed::Stale { decided_until },
        Some(_) => {
            let fell = Fell {
                job_id,
                until: skipped.iter().map(|fold| fold.last).max(),
                skipped: skipped.to_vec(),
            };
            pauses::record(&mut tx, &[fell], by).await?;
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
    /// The session of its holder has ended; it is cancelled when it is freed.
    Held,
    /// It has ended, in this state.
    AlreadyFinal(RunState),
    NotFound,
}

/// Writes the one event of many runs that somebody cancels or runs again; `detail` says by whom.
pub async fn tell_many(
    acting: &Acting,
    kind: EventKind,
    job: Option<&str>,
    detail: &Value,
) -> Result<(), StoreError> {
    let params: [Param<'_>; 3] = [
        (&kind.as_str(), Type::TEXT),
        (&job, Type::TEXT),
        (&detail, Type::JSONB),
    ];
    let _: Vec<Value> = acting.rows(stmt!("tell_many"), &params).await?;
    Ok(())
}

/// Cancels a run.
pub async fn cancel(acting: &Acting, run_id: i64, by: &str) -> Result<Cancelled, StoreError> {
    let outcomes = cancel_set(acting, &[run_id], by, false).await?;
    Ok(outcomes
        .into_iter()
        .next()
        .map_or(Cancelled::NotFound, |(_, outcome)| outcome))
}

/// As [`cancel`], of a thousand runs or so in one transaction; each with what became of it. Runs of many have no event of their own:
/// that of [`tell_many`] tells them.
pub async fn cancel_set(
    acting: &Acting,
    runs: &[i64],
    by: &str,
    of_many: bool,
) -> Result<Vec<(i64, Cancelled)>, StoreError> {
    #[derive(Deserialize)]
    struct Live {
        run_id: i64,
        node: Option<String>,
        held: bool,
    }
    let live: Vec<Live> = acting
        .rows(
            stmt!("cancel"),
            &[
                (&runs, Type::INT8_ARRAY),
                (&by, Type::TEXT),
                (&of_many, Type::BOOL),
            ],
        )
        .await?;
    let mut live: BTreeMap<i64, Live> = live.into_iter().map(|run| (run.run_id, run)).collect();
    let mut outcomes = Vec::with_capacity(runs.len());
    for run_id in runs {
        let outcome = match live.remove(run_id) {
            Some(Live { held: true, .. }) => Cancelled::Held,
            Some(Live { node: Some(node), .. }) => Cancelled::Requested { node },
            Some(Live { node: None, .. }) => Cancelled::Now,
            None => {
                let ended: Option<(RunState,)> = acting
                    .db()
                    .row(stmt!("final_state"), &[(run_id, Type::INT8)])
                    .await?;
                ended.map_or(Cancelled::NotFound, |(state,)| Cancelled::AlreadyFinal(state))
            }
        };
        outcomes.push((*run_id, outcome));
    }
    Ok(outcomes)
}

/// The answer to `retry_run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retried {
    /// The new run, of the job's present revision with the old run's parameters.
    Run(i64),
    /// It has not ended.
    NotFinal,
    NotFound,
    NoJob,
    /// The job is disabled.
    Disabled,
    /// Nothing of the job is executed.
    Observes,
    /// Its parameters are not what the definition asks for by now.
    Unfit(String),
    /// Another run for the same row of a table has not ended.
    RowLive,
    /// It replayed lines of a stream, and none of them is left.
    NoLines,
}

/// Names one request of a token, so that its repetition is answered with what was done.
#[derive(Clone, Copy, Debug)]
pub struct Once<'a> {
    pub token_id: i64,
    /// What the client calls the request; a repetition has the same.
    pub key: &'a str,
}

/// Makes a new run from a finished one. With `from_failed`, a flow does not run again what succeeded. With `once`, a
/// repetition within a week is answered with the run of the first time.
pub async fn retry_run(
    acting: &Acting,
    run_id: i64,
    by: &str,
    from_failed: bool,
    once: Option<Once<'_>>,
) -> Result<Retried, StoreError> {
    let wish = Wish {
        by,
        from_failed,
        once,
        told: false,
        queued: false,
    };
    retry_one(acting, run_id, wish).await
}

/// How a finished run is to be run again.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Who says so.
    pub by: &'a str,
    /// A flow does not run again what succeeded.
    pub from_failed: bool,
    /// A repetition is answered with the run of the first time.
    pub once: Option<Once<'a>>,
    /// It has no event of its own: that of [`tell_many`] tells it.
    pub told: bool,
    /// It waits for what else of the job is live, unless the job says that its runs may overlap.
    pub queued: bool,
}

/// As [`retry_run`], of one of many.
pub async fn retry_one(acting: &Acting, run_id: i64, wish: Wish<'_>) -> Result<Retried, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        ended: bool,
        live: bool,
        row_live: bool,
        /// The state of a job that makes none.
        refused: Option<JobState>,
        /// It has a row's key, and its job is not a table job any more.
        of_no_table: bool,
        no_lines: bool,
        new_run: Option<i64>,
    }
    let mut tx = acting.transaction("retry_run").await?;
    let action = retry_of(run_id);
    if let Some(once) = wish.once
        && let Some(run) = answered(&mut tx, once, &action).await?
    {
        tx.rollback().await?;
        return Ok(Retried::Run(run));
    }
    if wish.queued {
        let _: Option<Value> = tx.row(stmt!("retry_lock"), &[(&run_id, Type::INT8)]).await?;
    }
    let row: Result<Option<Row>, StoreError> = tx
        .row(
            stmt!("retry_run"),
            &[
                (&run_id, Type::INT8),
                (&wish.by, Type::TEXT),
                (&wish.from_failed, Type::BOOL),
                (&wish.told, Type::BOOL),
                (&wish.queued, Type::BOOL),
            ],
        )
        .await;
    let row = match row {
        Err(StoreError::Refused(why)) => {
            tx.rollback().await?;
            return Ok(Retried::Unfit(why));
        }
        row => row?,
    };
    if let (Some(once), Some(run)) = (wish.once, row.as_ref().and_then(|row| row.new_run)) {
        let _: Vec<Value> = tx
            .rows(
                stmt!("once_answer"),
                &[
                    (&once.token_id, Type::INT8),
                    (&action, Type::TEXT),
                    (&once.key, Type::TEXT),
                    (&run, Type::INT8),
                ],
            )
            .await?;
    }
    match row.as_ref().is_some_and(|row| row.new_run.is_some()) {
        true => tx.commit().await?,
        false => tx.rollback().await?,
    }
    Ok(match row {
        Some(Row {
            new_run: Some(id), ..
        }) => Retried::Run(id),
        Some(Row { live: true, .. }) => Retried::NotFinal,
        Some(Row {
            refused: Some(JobState::Disabled),
            ..
        }) => Retried::Disabled,
        Some(Row { refused: Some(_), .. }) => Retried::Observes,
        Some(Row {
            of_no_table: true, ..
        }) => Retried::Unfit("it has a row's key, and its job is not a table job any more".to_owned()),
        Some(Row { row_live: true, .. }) => Retried::RowLive,
        Some(Row { no_lines: true, .. }) => Retried::NoLines,
        Some(Row { ended: true, .. }) => Retried::NoJob,
        _ => Retried::NotFound,
    })
}

/// Of these runs, those that retries with `once` made.
pub async fn made_with(db: &Db, runs: &[i64], once: Once<'_>) -> Result<Vec<i64>, StoreError> {
    let rows: Vec<(i64,)> = db
        .rows(
            stmt!("once_made"),
            &[
                (&once.token_id, Type::INT8),
                (&once.key, Type::TEXT),
                (&runs, Type::INT8_ARRAY),
            ],
        )
        .await?;
    Ok(rows.into_iter().map(|(run_id,)| run_id).collect())
}

/// Of these runs, those that a later retry repeats; not what was made with `once`, which is answered again.
pub async fn retried_runs(db: &Db, runs: &[i64], once: Option<Once<'_>>) -> Result<Vec<i64>, StoreError> {
    let rows: Vec<(i64,)> = db
        .rows(stmt!("retried_runs"), &[(&runs, Type::INT8_ARRAY)])
        .await?;
    let mut retried: Vec<i64> = rows.into_iter().map(|(run_id,)| run_id).collect();
    if let Some(once) = once {
        let actions: Vec<String> = retried.iter().map(|run| retry_of(*run)).collect();
        let done: Vec<(String,)> = db
            .rows(
                stmt!("once_done"),
                &[
                    (&once.token_id, Type::INT8),
                    (&actions, Type::TEXT_ARRAY),
                    (&once.key, Type::TEXT),
                ],
            )
            .await?;
        retried.retain(|run| !done.iter().any(|(action,)| *action == retry_of(*run)));
    }
    Ok(retried)
}

/// What a retry is called among the actions that are done once.
fn retry_of(run_id: i64) -> String {
    format!("retry {run_id}")
}

/// Keeps others with the same key out, and reads what was answered before, if anything.
async fn answered(tx: &mut Transaction, once: Once<'_>, action: &str) -> Result<Option<i64>, StoreError> {
    let params = [
        (&once.token_id as _, Type::INT8),
        (&action as _, Type::TEXT),
        (&once.key as _, Type::TEXT),
    ];
    let _: Vec<Value> = tx.rows(stmt!("once_begin"), &params).await?;
    let row: Option<(Option<i64>,)> = tx.row(stmt!("once_read"), &params).await?;
    Ok(row.and_then(|(answer,)| answer))
}
