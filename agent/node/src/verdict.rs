//! From what the warden reports of an attempt to what is written down. Pure.

use std::time::Duration;

use farmhand_core::continuous::after_round;
use farmhand_core::input::stream;
use farmhand_core::run::{AfterAttempt, AttemptEnd, Outcome, after_attempt};
use farmhand_store::protocol::LostWhy;
use farmhand_warden_client::request::Assignment;
use farmhand_warden_client::wire::{AttemptResult, Ending, KillReason, Stage};
use serde_json::{Value, json};

/// How an attempt ended, as it is to be written down.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The run is over.
    Final {
        outcome: Outcome,
        reason: Option<String>,
        /// Until the next round of a continuous job.
        again: Option<Duration>,
    },
    /// Due again after `delay`.
    Retry {
        outcome: Outcome,
        reason: Option<String>,
        delay: Duration,
    },
    /// Ended by us before it could end itself: as `on_lost` says.
    Lost { why: LostWhy },
    /// This node would not execute the definition; whether another might, the database is asked.
    Refused {
        why: String,
        /// It is of a newer release than this agent: the run waits for another.
        newer: bool,
    },
    /// Another node might: due again after `delay`.
    GivenBack { reason: String, delay: Duration },
}

/// Decides what the end of an attempt means. `cancelled`: somebody asked for its end; `random` is uniform
/// over all of `u64`.
pub(crate) fn verdict(a: &Assignment, result: &AttemptResult, cancelled: bool, random: u64) -> Verdict {
    let end = match (result.killed, &result.ending) {
        (Some(KillReason::Lease), _) => return Verdict::Lost { why: LostWhy::Lease },
        (Some(KillReason::Shutdown), _) => return Verdict::Lost { why: LostWhy::Drain },
        (Some(KillReason::Fenced), _) => {
            return Verdict::Lost { why: LostWhy::Fenced };
        }
        (Some(KillReason::Timeout | KillReason::Progress), _) => AttemptEnd::TimedOut,
        (Some(KillReason::Cancel), _) => AttemptEnd::Cancelled,
        (_, Ending::StartFailed(_)) => AttemptEnd::NotStarted,
        (_, Ending::Signaled { signal }) => AttemptEnd::Signalled(*signal),
        (Some(KillReason::LimitMemory | KillReason::LimitProcesses), Ending::Exited { .. }) => {
            AttemptEnd::Signalled(9)
        }
        (None, Ending::Exited { code }) => AttemptEnd::Exited(*code),
    };
    let said = a
        .spec
        .stream
        .is_some()
        .then(|| stream::reason(result.checkpoint.as_deref()));
    let reason = match said.flatten() {
        Some(why) if result.killed.is_none() => Some(why),
        _ => reason(result),
    };
    if a.is_round() {
        return round_over(a, end, reason, cancelled, random);
    }
    if let Ending::StartFailed(failure) = &result.ending
        && failure.stage == Stage::Signature
        && !cancelled
    {
        // Another attempt here would be refused as well.
        return Verdict::Refused {
            newer: false,
            why: failure.message.clone(),
        };
    }
    if let AttemptEnd::Exited(code) = end
        && a.spec.idle_exit.contains(&code)
    {
        // A run by hand of a continuous job: it found nothing to do, and there is nothing to repeat.
        return Verdict::Final {
            outcome: Outcome::Succeeded,
            reason: Some("idle".to_owned()),
            again: None,
        };
    }
    if a.spec.stream.is_some() && end == AttemptEnd::Exited(stream::ITEMS_FAILED) && !cancelled {
        // Nothing is left that another attempt could do.
        return Verdict::Final {
            outcome: Outcome::Failed,
            reason,
            again: None,
        };
    }
    match after_attempt(end, &a.spec.retry, a.retries.unsigned_abs(), cancelled, random) {
        AfterAttempt::Final(outcome) => Verdict::Final {
            outcome,
            reason,
            again: None,
        },
        AfterAttempt::Retry { delay } => {
            let outcome = if end == AttemptEnd::TimedOut {
                Outcome::TimedOut
            } else {
                Outcome::Failed
            };
            Verdict::Retry {
                outcome,
                reason,
                delay,
            }
        }
    }
}

fn round_over(
    a: &Assignment,
    end: AttemptEnd,
    reason: Option<String>,
    cancelled: bool,
    random: u64,
) -> Verdict {
    let round = after_round(end, &a.spec.rounds(), a.retries.unsigned_abs(), cancelled, random);
    Verdict::Final {
        outcome: round.outcome,
        reason: if round.idle {
            Some("idle".to_owned())
        } else {
            reason
        },
        again: Some(round.again),
    }
}

/// The end of a run that could not be started, as if its command had failed.
pub(crate) fn refusal(a: &Assignment, why: String, random: u64) -> Verdict {
    if a.is_round() {
        return round_over(a, AttemptEnd::NotStarted, Some(why), false, random);
    }
    Verdict::Final {
        outcome: Outcome::Failed,
        reason: Some(why),
        again: None,
    }
}

/// One line for people; `None` for a plain exit.
fn reason(result: &AttemptResult) -> Option<String> {
    let why = match (result.killed, &result.ending) {
        (_, Ending::StartFailed(failure)) => failure.message.clone(),
        (Some(KillReason::Timeout), _) => "ran past its timeout".to_owned(),
        (Some(KillReason::Progress), _) => "made no progress for too long".to_owned(),
        (Some(KillReason::Cancel), _) => "cancelled while running".to_owned(),
        (Some(KillReason::LimitMemory), _) => "went over its memory limit".to_owned(),
        (Some(KillReason::LimitProcesses), _) => "went over its process limit".to_owned(),
        (Some(KillReason::Lease), _) => "the lease ended".to_owned(),
        (Some(KillReason::Shutdown), _) => "the agent was told to leave".to_owned(),
        (Some(KillReason::Fenced), _) => "the run had moved on".to_owned(),
        (None, Ending::Exited { code: 0 }) => return result.left_behind().map(str::to_owned),
        (None, Ending::Exited { code }) => format!("exit code {code}"),
        (None, Ending::Signaled { signal }) => format!("ended by signal {signal}"),
    };
    Some(match result.left_behind() {
        Some(said) => format!("{why}; {said}"),
        None => why,
    })
}

/// What goes into the event and the history besides outcome and reason.
pub(crate) fn detail(result: &AttemptResult) -> Value {
    json!({
        "exit_code": result.exit_code(),
        "signal": result.signal(),
        "cpu_ms": (result.user_us + result.sys_us) / 1000,
        "max_rss_bytes": Some(result.max_rss_bytes).filter(|bytes| *bytes > 0),
        "leftovers": result.leftovers,
    })
}
