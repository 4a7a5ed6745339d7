//! An attempt's end as the rows that the store's statements take.

use farmhand_core::run::Outcome;
use farmhand_store::AttemptOutcome;
use farmhand_store::protocol::{Finish, Lose, Measured, Retry};
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

/// Exit code, signal, and what the warden measured; `dropped`: bytes of output that are not in the database.
fn seen(e: &Ended, dropped: u64) -> (Option<i32>, Option<i32>, Measured) {
    let Some(r) = e.result.as_ref().filter(|_| !e.shortened) else {
        return (None, None, Measured::default());
    };
    let signed = |n: u64| i64::try_from(n).ok();
    let measured = Measured {
        started_at: Timestamp::from_millisecond(r.started_wall_ms).ok(),
        ran_ms: i64::try_from(r.ran().as_millis()).ok(),
        cpu_ms: signed((r.user_us + r.sys_us) / 1000),
        max_rss_bytes: signed(r.max_rss_bytes).filter(|bytes| *bytes > 0),
        output_bytes: signed(r.output.bytes),
        output_dropped: signed(dropped),
    };
    (r.exit_code(), r.signal(), measured)
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
    let (exit_code, signal, measured) = seen(e, dropped);
    Some(Finish {
        run_id: e.assignment.run_id,
        attempt: e.assignment.attempt,
        fence: e.assignment.fence,
        address: e.address.clone(),
        session: e.assignment.session,
        state: outcome.state(),
        exit_code,
        signal,
        reason: reason.as_deref().map(without_nul),
        measured,
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
    let (exit_code, signal, measured) = seen(e, dropped);
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
        exit_code,
        signal,
        reason: reason.as_deref().map(without_nul),
        measured,
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
