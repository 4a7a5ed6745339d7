//! Lines of streams that were given up, and those that are run again.

pub use farmhand_core::attempt::Items;
pub use farmhand_core::stream::ItemEnd;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::acting::Acting;
use super::conn::Param;
use super::db::{Db, stmt};
use super::error::StoreError;
use super::tasks::record;
use farmhand_core::attempt::Attempt;
use farmhand_core::health::JobState;

/// Lines that one run replays at most, and their bytes: they go through its standard input.
const REPLAY_ITEMS: i64 = 2_000;
const REPLAY_BYTES: i64 = 256 << 10;
/// How often a replay that meets others is tried again.
const CONFLICTS: usize = 5;

/// A recorded line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemRow {
    /// The line's number in its list, from 1.
    pub item: i64,
    /// `succeeded`, `failed`, `timed_out` or `refused`.
    pub outcome: String,
    /// The run whose failed line it is, in a replay.
    pub of_run: Option<i64>,
    pub attempt: i32,
    pub address: Option<String>,
    pub failures: i32,
    /// The line itself, in hex.
    pub line: String,
    /// When its command was started; none when it never was.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// What the command exited with; none when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; none when none did.
    pub signal: Option<i32>,
    pub reason: Option<String>,
    /// The end of what its command wrote, in hex.
    pub output: Option<String>,
    /// The run that ran it again, and how it ended there.
    pub replayed_by: Option<i64>,
    /// As `outcome`.
    pub replay: Option<String>,
}

/// Which recorded lines of a run are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub run_id: i64,
    /// Those after this one.
    pub after: i64,
    /// Those of these numbers; all when it is left out.
    pub only: Option<&'a [i64]>,
    /// Not those that a replay has done.
    pub failed: bool,
    /// The most of them.
    pub limit: i64,
}

/// What became of a wish to run lines again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// A new run for so many of them; there may be more.
    Run {
        run_id: i64,
        /// How many lines it runs again.
        items: i64,
    },
    /// None of them is left.
    Nothing,
    NotFound,
    /// The job has been deleted, or is no stream any more.
    NoStream,
    /// The job is disabled.
    Disabled,
    /// Nothing of the job is executed.
    Observes,
}

/// Records ends of an attempt that `session` holds; returns how many were taken. Nothing is recorded when the
/// run has moved on.
pub async fn record_items(db: &Db, of: Attempt, session: i64, ends: &[ItemEnd]) -> Result<usize, StoreError> {
    record(db, stmt!("record_items"), of, session, ends).await
}

/// Recorded lines of a run, in the order of the list.
pub async fn items(db: &Db, wanted: &Wanted<'_>) -> Result<Vec<ItemRow>, StoreError> {
    db.rows(
        stmt!("items"),
        &[
            (&wanted.run_id, Type::INT8),
            (&wanted.after, Type::INT8),
            (&wanted.only, Type::INT8_ARRAY),
            (&wanted.failed, Type::BOOL),
            (&wanted.limit, Type::INT8),
        ],
    )
    .await
}

/// Makes a run of the same job for lines that were given up and that no run has replayed; all, or those of `only`.
pub async fn replay_items(
    acting: &Acting,
    run_id: i64,
    by: &str,
    only: Option<&[i64]>,
) -> Result<Replayed, StoreError> {
    #[derive(Deserialize)]
    struct Answer {
        known: bool,
        fits: bool,
        /// The state of a job that makes none.
        refused: Option<JobState>,
        items: i64,
        new_run: Option<i64>,
    }
    let params: [Param<'_>; 5] = [
        (&run_id, Type::INT8),
        (&by, Type::TEXT),
        (&only, Type::INT8_ARRAY),
        (&REPLAY_ITEMS, Type::INT8),
        (&REPLAY_BYTES, Type::INT8),
    ];
    let mut conflicts = 0;
    let answer = loop {
        let mut tx = acting.transaction("replay_items").await?;
        match tx.row::<Answer>(stmt!("replay_items"), &params).await {
            // Each time somebody else has replayed some of the lines, so there are fewer left.
            Err(error) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
            answer => {
                let answer = answer?;
                match answer.as_ref().is_some_and(|answer| answer.new_run.is_some()) {
                    true => tx.commit().await?,
                    false => tx.rollback().await?,
                }
                break answer;
            }
        }
    };
    Ok(match answer {
        Some(Answer {
            new_run: Some(run_id),
            items,
            ..
        }) => Replayed::Run { run_id, items },
        Some(Answer {
            refused: Some(JobState::Disabled),
            ..
        }) => Replayed::Disabled,
        Some(Answer { refused: Some(_), .. }) => Replayed::Observes,
        Some(Answer {
            known: true,
            fits: true,
            ..
        }) => Replayed::Nothing,
        Some(Answer { known: true, .. }) => Replayed::NoStream,
        _ => Replayed::NotFound,
    })
}

/// Deletes up to 10,000 lines older than `days` of runs that have ended; returns how many.
pub async fn drop_older_than(db: &Db, days: i32) -> Result<usize, StoreError> {
    let rows: Vec<Value> = db.rows(stmt!("drop_items"), &[(&days, Type::INT4)]).await?;
    Ok(rows.len())
}
