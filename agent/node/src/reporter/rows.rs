//! An attempt's end as the rows that the store's statements take.

use farmhand_core::run::Outcome;
use farmhand_store::AttemptOutcome;
use farmhand_store::protocol::{Finish, Lose, Retry};
use jiff::Timestamp;

use super::record::without_nul;
use super::report::Ended;
use crate::verdict::Verdict;

pub(super) fn op(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Final { .. } => "finish",
        Verdict::Retry { .. } => "retry",
        Verdict::Lost { .. } => "lose",
        Verdict::Refused { .. } | Verdict::GivenBack { .. } => "give_back",
    }
}

/// What the warden measured, as columns.
#[derive(Default)]
struct Measured {
    exit_code: Option<i32>,
    signal: Option<i32>,
    started_at: Option<Timestamp>,
    ran_ms: Option<i64>,
    cpu_ms: Option<i64>,
    max_rss_bytes: Option<i64>,
    output_bytes: Option<i64>,
    output_dropped: Option<i64>,
}

impl Measured {
    /// `dropped`: bytes of output that are not in the database.
    fn of(e: &Ended, dropped: u64) -> Self {
        let Some(r) = e.result.as_ref().filter(|_| !e.shortened) else {
            return Self::default();
        };
        let signed = |n: u64| i64::try_from(n).ok();
        Self {
            exit_code: r.exit_code(),
            signal: r.signal(),
            started_at: Timestamp::from_millisecond(r.started_wall_ms).ok(),
            ran_ms: i64::try_from(r.ran().as_millis()).ok(),
            cpu_ms: signed((r.user_us + r.sys_us) / 1000),
            max_rss_bytes: signed(r.max_rss_bytes),
            output_bytes: signed(r.output.bytes),
            output_dropped: signed(dropped),
        }
    }
}

pub(super) fn finish_row(e: &Ended, dropped: u64) -> Option<Finish> {
    let Verdict::Final {
        outcome,
        reason,
        again,
    } = &e.verdict
    else {
        return None;
    };
    let m = Measured::of(e, dropped);
    Some(Finish {
        run_id: e.assignment.run_id,
        attempt: e.assignment.attempt,
        fence: e.assignment.fence,
        address: e.address.clone(),
        session: e.assignment.session,
        state: outcome.state(),
        exit_code: m.exit_code,
        signal: m.signal,
        reason: reason.as_deref().map(without_nul),
        started_at: m.started_at,
        ran_ms: m.ran_ms,
        cpu_ms: m.cpu_ms,
        max_rss_bytes: m.max_rss_bytes,
        output_bytes: m.output_bytes,
        output_dropped: m.output_dropped,
        again: *again,
    })
}

pub(super) fn retry_row(e: &Ended, dropped: u64) -> Option<Retry> {
    let Verdict::Retry {
        outcome,
        reason,
        delay,
    } = &e.verdict
    else {
        return None;
    };
    let m = Measured::of(e, dropped);
    let timed_out = *outcome == Outcome::TimedOut;
    Some(Retry {
        run_id: e.assignment.run_id,
        attempt: e.assignment.attempt,
        fence: e.assignment.fence,
        address: e.address.clone(),
        session: e.assignment.session,
        outcome: if timed_out {
            AttemptOutcome::TimedOut
        } else {
            AttemptOutcome::Failed
        },
        exit_code: m.exit_code,
        signal: m.signal,
        reason: reason.as_deref().map(without_nul),
        started_at: m.started_at,
        ran_ms: m.ran_ms,
        cpu_ms: m.cpu_ms,
        max_rss_bytes: m.max_rss_bytes,
        output_bytes: m.output_bytes,
        output_dropped: m.output_dropped,
        delay: *delay,
    })
}

pub(super) fn lose_row(e: &Ended) -> Option<Lose> {
    let Verdict::Lost { why } = e.verdict else {
        return None;
    };
    Some(Lose {
        run_id: e.assignment.run_id,
        attempt: e.assignment.attempt,
        fence: e.assignment.fence,
        address: e.address.clone(),
        session: e.assignment.session,
        why,
    })
}
