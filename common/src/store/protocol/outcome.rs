//! How attempts end: finished, retried, released. Every row names run, attempt, address and session.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;

use super::fire::promote;
use super::session::{millis, set};
use crate::store::db::{Db, Stmt, stmt};
use crate::store::error::StoreError;
use crate::store::{AttemptOutcome, Final, Me};

/// The end of a run, as its holder saw it.
#[derive(Clone, Debug, Serialize)]
pub struct Finish {
    pub run_id: i64,
    pub attempt: i32,
    pub address: String,
    pub session: i64,
    pub state: Final,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub reason: Option<String>,
    pub started_at: Option<Timestamp>,
    pub cpu_ms: Option<i64>,
    pub max_rss_bytes: Option<i64>,
    pub output_bytes: Option<i64>,
    /// Bytes that the caps kept out.
    pub output_dropped: Option<i64>,
}

/// The end of an attempt whose run is to be tried again.
#[derive(Clone, Debug)]
pub struct Retry {
    pub run_id: i64,
    pub attempt: i32,
    pub address: String,
    pub session: i64,
    /// `Failed` or `TimedOut`.
    pub outcome: AttemptOutcome,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub reason: Option<String>,
    pub started_at: Option<Timestamp>,
    pub cpu_ms: Option<i64>,
    pub max_rss_bytes: Option<i64>,
    pub output_bytes: Option<i64>,
    pub output_dropped: Option<i64>,
    /// Until the run is due again.
    pub delay: Duration,
}

/// What became of one write about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishResult {
    /// It changed the run.
    Done,
    /// A retry or a release whose run ended instead, because its cancelling had been requested or
    /// because it may not be run twice; the final state.
    Ended(Final),
    /// This very write had taken effect before; its reply was lost.
    AlreadyOwn,
    /// The run moved on: nothing was changed.
    Fenced { now: Now },
}

/// How a run stands that is no longer the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    Due {
        attempt: i32,
    },
    Running {
        attempt: i32,
        address: String,
        session: i64,
    },
    Final {
        state: Final,
        attempt: i32,
    },
    Gone,
}

/// Ends runs, and lets queued ones of the same jobs go. Answers are in the order of `ends`.
pub async fn finish(db: &Db, ends: &[Finish]) -> Result<Vec<(i64, FinishResult)>, StoreError> {
    write(
        db,
        stmt!("finish"),
        ends,
        ends.iter().map(Key::of_finish).collect(),
    )
    .await
}

/// Makes runs due again after their backoff and records the attempts. A run whose cancelling was
/// requested ends as cancelled instead.
pub async fn retry(db: &Db, retries: &[Retry]) -> Result<Vec<(i64, FinishResult)>, StoreError> {
    let records: Vec<AttemptEnd> = retries.iter().map(AttemptEnd::of_retry).collect();
    write(
        db,
        stmt!("attempt_end"),
        &records,
        records.iter().map(Key::of_end).collect(),
    )
    .await
}

/// Why a holder gives a run back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The warden recorded that this attempt never starts: no harm, whatever `on_lost` says.
    NeverStarted,
    /// It was running and was killed for a drain: `on_lost = "fail"` makes it lost.
    Drained,
}

/// Gives held runs back; they are due at once. Neither a retry nor a takeover is counted.
pub async fn release(
    db: &Db,
    me: &Me,
    attempts: &[(i64, i32)],
    why: Release,
) -> Result<Vec<(i64, FinishResult)>, StoreError> {
    let records: Vec<AttemptEnd> = attempts
        .iter()
        .map(|&(run_id, attempt)| AttemptEnd::of_release(run_id, attempt, me, why))
        .collect();
    write(
        db,
        stmt!("attempt_end"),
        &records,
        records.iter().map(Key::of_end).collect(),
    )
    .await
}

/// Why an attempt that ran here was ended before it could end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWhy {
    /// The lease lapsed and the kernel ended it.
    Lease,
    /// Its warden died.
    Warden,
    /// The node was told to leave.
    Drain,
    /// It was ended because the run seemed to have moved on.
    Fenced,
}

impl LostWhy {
    /// As recorded.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease lapsed",
            Self::Warden => "warden died",
            Self::Drain => "drained",
            Self::Fenced => "fenced",
        }
    }
}

/// An attempt that its holder knows to be dead without an end of its own.
#[derive(Clone, Debug)]
pub struct Lose {
    pub run_id: i64,
    pub attempt: i32,
    pub address: String,
    pub session: i64,
    pub why: LostWhy,
}

/// Frees runs whose attempts their holder lost, as `on_lost` says; all but a drain counts as a takeover.
pub async fn lose(db: &Db, lost: &[Lose]) -> Result<Vec<(i64, FinishResult)>, StoreError> {
    let records: Vec<AttemptEnd> = lost.iter().map(AttemptEnd::of_lost).collect();
    write(
        db,
        stmt!("attempt_end"),
        &records,
        records.iter().map(Key::of_end).collect(),
    )
    .await
}

/// Puts a held-over run of one of the caller's own earlier sessions under its present one. False when
/// it moved on or the caller's session is not open: then kill it.
pub async fn rehold(
    db: &Db,
    run_id: i64,
    attempt: i32,
    old_session: i64,
    me: &Me,
) -> Result<bool, StoreError> {
    let row: Option<Touched> = db
        .row(
            stmt!("rehold"),
            &[
                (&run_id, Type::INT8),
                (&attempt, Type::INT4),
                (&old_session, Type::INT8),
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.life, Type::UUID),
            ],
        )
        .await?;
    Ok(row.is_some())
}

#[derive(Deserialize)]
struct Touched {
    #[expect(dead_code, reason = "that there is a row is the answer")]
    run_id: i64,
}

#[derive(Debug, Serialize)]
struct AttemptEnd {
    run_id: i64,
    attempt: i32,
    address: String,
    session: i64,
    outcome: AttemptOutcome,
    /// Whether `on_lost = "fail"` ends the run.
    ran: bool,
    counts_retry: bool,
    counts_takeover: bool,
    delay_ms: i64,
    exit_code: Option<i32>,
    signal: Option<i32>,
    reason: Option<String>,
    started_at: Option<Timestamp>,
    cpu_ms: Option<i64>,
    max_rss_bytes: Option<i64>,
    output_bytes: Option<i64>,
    output_dropped: Option<i64>,
}

impl AttemptEnd {
    fn of_retry(r: &Retry) -> Self {
        Self {
            run_id: r.run_id,
            attempt: r.attempt,
            address: r.address.clone(),
            session: r.session,
            outcome: r.outcome,
            ran: false,
            counts_retry: true,
            counts_takeover: false,
            delay_ms: millis(r.delay),
            exit_code: r.exit_code,
            signal: r.signal,
            reason: r.reason.clone(),
            started_at: r.started_at,
            cpu_ms: r.cpu_ms,
            max_rss_bytes: r.max_rss_bytes,
            output_bytes: r.output_bytes,
            output_dropped: r.output_dropped,
        }
    }

    fn of_lost(l: &Lose) -> Self {
        let me = Me {
            address: l.address.clone(),
            session: l.session,
            life: uuid::Uuid::nil(),
        };
        let released = Self::of_release(l.run_id, l.attempt, &me, Release::Drained);
        if l.why == LostWhy::Drain {
            return released;
        }
        Self {
            outcome: AttemptOutcome::Lost,
            counts_takeover: true,
            reason: Some(l.why.as_str().to_owned()),
            ..released
        }
    }

    fn of_release(run_id: i64, attempt: i32, me: &Me, why: Release) -> Self {
        let (outcome, reason) = match why {
            Release::NeverStarted => (AttemptOutcome::NeverStarted, "never started"),
            Release::Drained => (AttemptOutcome::Released, "drained"),
        };
        Self {
            run_id,
            attempt,
            address: me.address.clone(),
            session: me.session,
            outcome,
            ran: why == Release::Drained,
            counts_retry: false,
            counts_takeover: false,
            delay_ms: 0,
            exit_code: None,
            signal: None,
            reason: Some(reason.to_owned()),
            started_at: None,
            cpu_ms: None,
            max_rss_bytes: None,
            output_bytes: None,
            output_dropped: None,
        }
    }
}

/// The fence, as every write carries it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
struct Key {
    run_id: i64,
    attempt: i32,
    address: String,
    session: i64,
}

impl Key {
    fn of_finish(f: &Finish) -> Self {
        Self {
            run_id: f.run_id,
            attempt: f.attempt,
            address: f.address.clone(),
            session: f.session,
        }
    }

    fn of_end(e: &AttemptEnd) -> Self {
        Self {
            run_id: e.run_id,
            attempt: e.attempt,
            address: e.address.clone(),
            session: e.session,
        }
    }
}

#[derive(Deserialize)]
struct Ended {
    #[serde(flatten)]
    key: Key,
    job_id: String,
    /// The final state, or None for a run that is due again.
    ended: Option<Final>,
    /// Whether other runs of the job may have waited for this one.
    promotes: bool,
}

async fn write<T: Serialize + std::fmt::Debug + Sync>(
    db: &Db,
    statement: Stmt,
    records: &[T],
    keys: Vec<Key>,
) -> Result<Vec<(i64, FinishResult)>, StoreError> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let changed: Vec<Ended> = db.rows(statement, &[(&set(records), Type::JSON)]).await?;
    let mut jobs: Vec<String> = changed
        .iter()
        .filter(|e| e.promotes)
        .map(|e| e.job_id.clone())
        .collect();
    jobs.sort();
    jobs.dedup();
    // The end is committed; the sweep promotes what a failure here leaves waiting.
    if let Err(error) = promote(db, &jobs).await {
        tracing::warn!(%error, "queued runs wait for the next sweep");
    }
    // By the whole fence: a set may hold a stale and a fresh attempt of one run.
    let changed: HashMap<Key, Option<Final>> = changed.into_iter().map(|e| (e.key, e.ended)).collect();
    let missed: Vec<i64> = keys
        .iter()
        .filter(|k| !changed.contains_key(k))
        .map(|k| k.run_id)
        .collect();
    let standing = if missed.is_empty() {
        HashMap::new()
    } else {
        read_back(db, &missed).await?
    };
    let finish = statement.op == "finish";
    Ok(keys
        .into_iter()
        .map(|key| {
            let result = match changed.get(&key) {
                Some(Some(state)) if !finish => FinishResult::Ended(*state),
                Some(_) => FinishResult::Done,
                None => judge(&key, standing.get(&key.run_id)),
            };
            (key.run_id, result)
        })
        .collect())
}

/// What became of a run: where it stands, and which attempts their own holders ended.
#[derive(Deserialize)]
struct Standing {
    run_id: i64,
    state: String,
    attempt: i32,
    address: Option<String>,
    session: Option<i64>,
    own_ends: Vec<OwnEnd>,
}

#[derive(Deserialize)]
struct OwnEnd {
    attempt: i32,
    address: String,
    session: i64,
}

async fn read_back(db: &Db, runs: &[i64]) -> Result<HashMap<i64, Standing>, StoreError> {
    let rows: Vec<Standing> = db.rows(stmt!("read_back"), &[(&runs, Type::INT8_ARRAY)]).await?;
    Ok(rows.into_iter().map(|r| (r.run_id, r)).collect())
}

fn judge(key: &Key, standing: Option<&Standing>) -> FinishResult {
    let Some(s) = standing else {
        return FinishResult::Fenced { now: Now::Gone };
    };
    let own = s
        .own_ends
        .iter()
        .any(|e| e.attempt == key.attempt && e.address == key.address && e.session == key.session);
    if own {
        return FinishResult::AlreadyOwn;
    }
    let now = match (s.state.parse::<Final>(), &s.address, s.session) {
        (Ok(state), _, _) => Now::Final {
            state,
            attempt: s.attempt,
        },
        (Err(_), Some(address), Some(session)) => Now::Running {
            attempt: s.attempt,
            address: address.clone(),
            session,
        },
        (Err(_), _, _) => Now::Due { attempt: s.attempt },
    };
    FinishResult::Fenced { now }
}
