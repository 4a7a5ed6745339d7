//! What the protocol is held against: what may happen to a run, and what becomes of it when its session ends.

use std::fmt;

use farmhand_core::definition::OnLost;
use farmhand_core::run::{Outcome, RunState};

/// How often a run is moved to another node before it fails.
pub const MAX_TAKEOVERS: u32 = 5;

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
