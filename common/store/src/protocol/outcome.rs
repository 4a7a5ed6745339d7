//! How attempts end: finished, retried, released. Every row names run, attempt, fence, address and session.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::claim::Attempt;
use super::fenced::{FinishResult, Key, Now, Wanted, write};
use super::session::millis;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::{AttemptOutcome, LeaseIdentity};
use farmhand_core::run::RunState;

/// What a node measured of an attempt; none of what it does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// When its command was started; none when it never was.
    pub started_at: Option<Timestamp>,
    /// How long its command ran, by the node's clock, in milliseconds.
    pub ran_ms: Option<i64>,
    /// Processor time that it used, in milliseconds.
    pub cpu_ms: Option<i64>,
    /// The most memory that it used, in bytes.
    pub max_rss_bytes: Option<i64>,
    /// How much it wrote, in bytes.
    pub output_bytes: Option<i64>,
    /// How much of that the caps kept out, in bytes.
    pub output_dropped: Option<i64>,
}

/// The end of a run, as its holder saw it.
#[derive(Clone, Debug, Serialize)]
pub struct Finish {
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
    pub address: String,
    pub session: i64,
    pub state: RunState,
    /// What the command exited with; none when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; none when none did.
    pub signal: Option<i32>,
    /// Why it ended so, where the state does not say it.
    pub reason: Option<String>,
    #[serde(flatten)]
    pub measured: Measured,
    /// For a round of a continuous job: until the next one is due.
    #[serde(rename = "again_ms", serialize_with = "opt_millis")]
    pub again: Option<Duration>,
}

/// The end of an attempt whose run is to be tried again.
#[derive(Clone, Debug)]
pub struct Retry {
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
    pub address: String,
    pub session: i64,
    /// `Failed` or `TimedOut`.
    pub outcome: AttemptOutcome,
    /// What the command exited with; none when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; none when none did.
    pub signal: Option<i32>,
    /// Why it ended so, where the outcome does not say it.
    pub reason: Option<String>,
    pub measured: Measured,
    /// Until the run is due again.
    pub delay: Duration,
}

/// Ends runs, and lets queued ones of the same jobs go; a round of a continuous job makes the next one.
pub async fn finish(db: &Db, ends: &[Finish]) -> Result<Vec<(Attempt, FinishResult)>, StoreError> {
    let (rounds, ends): (Vec<&Finish>, Vec<&Finish>) = ends.iter().partition(|e| e.again.is_some());
    let key = |e: &&Finish| {
        let of = Attempt {
            run_id: e.run_id,
            attempt: e.attempt,
            fence: e.fence,
        };
        Key::new(of, &e.address, e.session)
    };
    let keys = |ends: &[&Finish]| ends.iter().map(key).collect();
    let mut results = write(db, stmt!("finish", often), Wanted::Over, &ends, keys(&ends)).await?;
    let ended = write(
        db,
        stmt!("finish_round", often),
        Wanted::Over,
        &rounds,
        keys(&rounds),
    )
    .await?;
    for (round, (of, result)) in rounds.iter().zip(ended) {
        let gone = matches!(result, FinishResult::Fenced { now: Now::Gone });
        // A success is what folds away; its first reply was lost.
        let own = gone && round.state == RunState::Succeeded;
        results.push((of, if own { FinishResult::AlreadyOwn } else { result }));
    }
    Ok(results)
}

fn opt_millis<S: serde::Serializer>(delay: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
    delay.map(millis).serialize(s)
}

/// Makes runs due again after their backoff and records the attempts. A run whose cancelling was
/// requested ends as cancelled instead.
pub async fn retry(db: &Db, retries: &[Retry]) -> Result<Vec<(Attempt, FinishResult)>, StoreError> {
    let records: Vec<AttemptEnd> = retries.iter().map(AttemptEnd::of_retry).collect();
    end_attempts(db, &records).await
}

async fn end_attempts(db: &Db, records: &[AttemptEnd]) -> Result<Vec<(Attempt, FinishResult)>, StoreError> {
    let keys = records.iter().map(|r| r.key.clone()).collect();
    write(db, stmt!("finish", often), Wanted::Again, records, keys).await
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
    me: &LeaseIdentity,
    attempts: &[Attempt],
    why: Release,
) -> Result<Vec<(Attempt, FinishResult)>, StoreError> {
    let records: Vec<AttemptEnd> = attempts
        .iter()
        .map(|of| AttemptEnd::of_release(Key::new(*of, &me.address, me.session), why))
        .collect();
    end_attempts(db, &records).await
}

/// An attempt whose definition its holder would not execute, while another node might.
#[derive(Clone, Debug)]
pub struct GiveBack {
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
    pub address: String,
    pub session: i64,
    pub reason: String,
    /// Until the run is due again, for this node too: so that nobody claims and refuses without a pause.
    pub delay: Duration,
}

/// Gives back runs that their holder would not execute. Neither a retry nor a takeover is counted.
pub async fn give_back(db: &Db, refused: &[GiveBack]) -> Result<Vec<(Attempt, FinishResult)>, StoreError> {
    let records: Vec<AttemptEnd> = refused.iter().map(AttemptEnd::of_give_back).collect();
    end_attempts(db, &records).await
}

/// Why an attempt that ran here was ended before it could end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWhy {
    /// The lease lapsed and the kernel ended it.
    Lease,
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
    pub fence: i64,
    pub address: String,
    pub session: i64,
    pub why: LostWhy,
}

/// Frees runs whose attempts their holder lost, as `on_lost` says; all but a drain counts as a takeover.
pub async fn lose(db: &Db, lost: &[Lose]) -> Result<Vec<(Attempt, FinishResult)>, StoreError> {
    let records: Vec<AttemptEnd> = lost.iter().map(AttemptEnd::of_lost).collect();
    end_attempts(db, &records).await
}

/// What the run has one more of after this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Counts {
    Retry,
    Takeover,
}

#[derive(Debug, Serialize)]
struct AttemptEnd {
    #[serde(flatten)]
    key: Key,
    outcome: AttemptOutcome,
    /// Whether `on_lost = "fail"` ends the run.
    ran: bool,
    counts: Option<Counts>,
    delay_ms: i64,
    exit_code: Option<i32>,
    signal: Option<i32>,
    reason: Option<String>,
    #[serde(flatten)]
    measured: Measured,
}

impl AttemptEnd {
    fn of_retry(r: &Retry) -> Self {
        let of = Attempt {
            run_id: r.run_id,
            attempt: r.attempt,
            fence: r.fence,
        };
        Self {
            key: Key::new(of, &r.address, r.session),
            outcome: r.outcome,
            ran: false,
            counts: Some(Counts::Retry),
            delay_ms: millis(r.delay),
            exit_code: r.exit_code,
            signal: r.signal,
            reason: r.reason.clone(),
            measured: r.measured,
        }
    }

    fn of_lost(l: &Lose) -> Self {
        let of = Attempt {
            run_id: l.run_id,
            attempt: l.attempt,
            fence: l.fence,
        };
        let released = Self::of_release(Key::new(of, &l.address, l.session), Release::Drained);
        if l.why == LostWhy::Drain {
            return released;
        }
        Self {
            outcome: AttemptOutcome::Lost,
            counts: Some(Counts::Takeover),
            reason: Some(l.why.as_str().to_owned()),
            ..released
        }
    }

    fn of_give_back(g: &GiveBack) -> Self {
        let of = Attempt {
            run_id: g.run_id,
            attempt: g.attempt,
            fence: g.fence,
        };
        let key = Key::new(of, &g.address, g.session);
        Self {
            delay_ms: millis(g.delay),
            reason: Some(g.reason.clone()),
            ..Self::of_release(key, Release::NeverStarted)
        }
    }

    fn of_release(key: Key, why: Release) -> Self {
        let (outcome, reason) = match why {
            Release::NeverStarted => (AttemptOutcome::NeverStarted, "never started"),
            Release::Drained => (AttemptOutcome::Released, "drained"),
        };
        Self {
            key,
            outcome,
            ran: why == Release::Drained,
            counts: None,
            delay_ms: 0,
            exit_code: None,
            signal: None,
            reason: Some(reason.to_owned()),
            measured: Measured::default(),
        }
    }
}
