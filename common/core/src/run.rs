//! The states of a run, and what becomes of it when an attempt or its session ends.

use std::fmt;
use std::time::Duration;

use super::definition::OnLost;
use super::retry;
use super::retry::Retry;

/// How often a run is moved to another node before it fails.
pub const MAX_TAKEOVERS: u32 = 5;

crate::words! {
    /// Where a run stands.
    RunState {
        Due = "due",
        Running = "running",
        Succeeded = "succeeded",
        Failed = "failed",
        TimedOut = "timed_out",
        Cancelled = "cancelled",
        Lost = "lost",
        Skipped = "skipped",
    }
}

impl RunState {
    pub fn is_final(self) -> bool {
        !matches!(self, RunState::Due | RunState::Running)
    }
}

/// What can happen to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunEvent {
    /// A node won it; the next attempt begins.
    Claimed,
    /// The holder gives it back: it never started, or the node drains.
    Released,
    /// The attempt failed and another one is allowed.
    Retried,
    /// The holder's session ended; the next node may take it.
    TakenOver,
    /// The holder's session ended and the run may not start again.
    GivenUp,
    /// The attempt ended the run.
    Ended(Outcome),
    /// Cancelled before anyone held it, or while its holder was gone.
    Cancelled,
    /// It never ran, for a recorded reason.
    Skipped,
}

/// How an attempt can end its run. Only its holder says so, except for the failure after
/// [`MAX_TAKEOVERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
}

impl Outcome {
    pub fn state(self) -> RunState {
        match self {
            Outcome::Succeeded => RunState::Succeeded,
            Outcome::Failed => RunState::Failed,
            Outcome::TimedOut => RunState::TimedOut,
            Outcome::Cancelled => RunState::Cancelled,
        }
    }
}

/// The event cannot happen in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Illegal {
    pub state: RunState,
    pub event: RunEvent,
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a run that is {} cannot be {:?}", self.state, self.event)
    }
}

impl std::error::Error for Illegal {}

/// # Errors
/// When `event` cannot happen to a run in `state`; nothing happens to a final one.
pub fn next(state: RunState, event: RunEvent) -> Result<RunState, Illegal> {
    use RunEvent as E;
    use RunState as S;
    match (state, event) {
        (S::Due, E::Claimed) => Ok(S::Running),
        (S::Due, E::Skipped) => Ok(S::Skipped),
        (S::Due | S::Running, E::Cancelled) => Ok(S::Cancelled),
        (S::Running, E::Released | E::Retried | E::TakenOver) => Ok(S::Due),
        (S::Running, E::GivenUp) => Ok(S::Lost),
        (S::Running, E::Ended(outcome)) => Ok(outcome.state()),
        _ => Err(Illegal { state, event }),
    }
}

/// How an attempt ended, as its warden saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptEnd {
    Exited(i32),
    Signalled(i32),
    /// Its run deadline or its progress deadline passed.
    TimedOut,
    /// The agent killed it because a cancel was requested.
    Cancelled,
    /// It could not be executed: no such command, no permission.
    NotStarted,
}

/// What the holder writes about an ended attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAttempt {
    Final(Outcome),
    Retry { delay: Duration },
}

/// `retries` were used up by earlier attempts; `random` is uniform over all of `u64`. A run whose cancel
/// was requested is never retried; one that succeeded all the same has succeeded.
pub fn after_attempt(
    end: AttemptEnd,
    policy: &Retry,
    retries: u32,
    cancel_requested: bool,
    random: u64,
) -> AfterAttempt {
    let outcome = match end {
        AttemptEnd::Exited(0) => return AfterAttempt::Final(Outcome::Succeeded),
        AttemptEnd::Cancelled => return AfterAttempt::Final(Outcome::Cancelled),
        AttemptEnd::TimedOut => Outcome::TimedOut,
        AttemptEnd::Exited(_) | AttemptEnd::Signalled(_) | AttemptEnd::NotStarted => Outcome::Failed,
    };
    if cancel_requested {
        AfterAttempt::Final(Outcome::Cancelled)
    } else if retries < policy.max {
        AfterAttempt::Retry {
            delay: retry::delay(policy, retries + 1, random),
        }
    } else {
        AfterAttempt::Final(outcome)
    }
}

/// What expire, close and sweep make of a run whose session ended. `takeovers` happened before.
pub fn after_session_end(on_lost: OnLost, takeovers: u32, cancel_requested: bool) -> RunEvent {
    match on_lost {
        _ if cancel_requested => RunEvent::Cancelled,
        OnLost::Fail => RunEvent::GivenUp,
        OnLost::Rerun if takeovers >= MAX_TAKEOVERS => RunEvent::Ended(Outcome::Failed),
        OnLost::Rerun => RunEvent::TakenOver,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [RunEvent; 8] = [
        RunEvent::Claimed,
        RunEvent::Released,
        RunEvent::Retried,
        RunEvent::TakenOver,
        RunEvent::GivenUp,
        RunEvent::Ended(Outcome::Succeeded),
        RunEvent::Cancelled,
        RunEvent::Skipped,
    ];

    #[test]
    fn nothing_happens_to_a_final_run() {
        for state in RunState::ALL.iter().copied().filter(|s| s.is_final()) {
            for event in EVENTS {
                assert_eq!(next(state, event), Err(Illegal { state, event }));
            }
        }
    }

    #[test]
    fn only_a_due_run_is_claimed_and_only_a_running_one_ends() {
        assert_eq!(next(RunState::Due, RunEvent::Claimed), Ok(RunState::Running));
        assert!(next(RunState::Running, RunEvent::Claimed).is_err());
        for event in [
            RunEvent::Released,
            RunEvent::Retried,
            RunEvent::TakenOver,
            RunEvent::GivenUp,
        ] {
            assert!(next(RunState::Due, event).is_err());
            assert!(next(RunState::Running, event).is_ok());
        }
        assert_eq!(
            next(RunState::Running, RunEvent::Ended(Outcome::TimedOut)),
            Ok(RunState::TimedOut)
        );
    }

    #[test]
    fn every_state_is_read_back_as_it_is_written() {
        for state in RunState::ALL {
            assert_eq!(state.as_str().parse(), Ok(*state));
        }
        assert!("Due".parse::<RunState>().is_err());
    }

    #[test]
    fn max_counts_retries_not_attempts() {
        let policy = Retry {
            max: 2,
            ..Retry::default()
        };
        let after = |retries| after_attempt(AttemptEnd::Exited(1), &policy, retries, false, u64::MAX);
        assert!(matches!(after(0), AfterAttempt::Retry { .. }));
        assert!(matches!(after(1), AfterAttempt::Retry { .. }));
        assert_eq!(after(2), AfterAttempt::Final(Outcome::Failed));
    }

    #[test]
    fn a_requested_cancel_stops_retries_but_not_a_success() {
        let policy = Retry {
            max: 2,
            ..Retry::default()
        };
        let after = |end| after_attempt(end, &policy, 0, true, 0);
        assert_eq!(
            after(AttemptEnd::Signalled(15)),
            AfterAttempt::Final(Outcome::Cancelled)
        );
        assert_eq!(
            after(AttemptEnd::Exited(0)),
            AfterAttempt::Final(Outcome::Succeeded)
        );
    }

    #[test]
    fn a_lost_session_reruns_gives_up_or_cancels() {
        assert_eq!(after_session_end(OnLost::Rerun, 4, false), RunEvent::TakenOver);
        assert_eq!(
            after_session_end(OnLost::Rerun, 5, false),
            RunEvent::Ended(Outcome::Failed)
        );
        assert_eq!(after_session_end(OnLost::Fail, 0, false), RunEvent::GivenUp);
        assert_eq!(after_session_end(OnLost::Fail, 0, true), RunEvent::Cancelled);
    }
}
