//! The states of a run, and what becomes of it when an attempt ends.

use std::time::Duration;

use super::retry;
use super::retry::Retry;

crate::words! {
    /// Where a run stands.
    RunState {
        /// It waits for a node.
        Due = "due",
        /// An attempt of it is under way.
        Running = "running",
        /// Its command did what it should.
        Succeeded = "succeeded",
        /// It did not, and no try is left.
        Failed = "failed",
        /// It took too long, and no try is left.
        TimedOut = "timed_out",
        /// Somebody ended it.
        Cancelled = "cancelled",
        /// Its node was lost, and the job asks for no other.
        Lost = "lost",
        /// It was never started.
        Skipped = "skipped",
    }
}

impl RunState {
    /// The ends that are a failure. A cancelled run is none: somebody wanted that.
    pub const FAILURES: &'static [Self] = &[Self::Failed, Self::TimedOut, Self::Lost];

    /// Whether nothing comes after it.
    pub fn is_final(self) -> bool {
        !matches!(self, RunState::Due | RunState::Running)
    }
}

/// How an attempt can end its run. Only its holder says so, except for the failure after too many
/// takeovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Its command exited with 0.
    Succeeded,
    /// It ended in another way, and is not tried again.
    Failed,
    /// It was ended because it took too long.
    TimedOut,
    /// Somebody ended it.
    Cancelled,
}

impl Outcome {
    /// The state that a run with this outcome is left in.
    pub fn state(self) -> RunState {
        match self {
            Outcome::Succeeded => RunState::Succeeded,
            Outcome::Failed => RunState::Failed,
            Outcome::TimedOut => RunState::TimedOut,
            Outcome::Cancelled => RunState::Cancelled,
        }
    }
}

/// How an attempt ended, as its warden saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptEnd {
    /// With this code.
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
    /// The run has ended.
    Final(Outcome),
    /// The run is due again.
    Retry {
        /// After this pause.
        delay: Duration,
    },
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

/// Where a run goes whose attempt is over without an end of its own. `ran`: its command may have begun; `counts`: the attempt is one
/// more that was taken over.
pub fn goes_to(cancel: bool, fails_when_lost: bool, ran: bool, takeovers: i32, counts: bool) -> RunState {
    if cancel {
        RunState::Cancelled
    } else if ran && fails_when_lost {
        RunState::Lost
    } else if counts && takeovers >= MAX_TAKEOVERS {
        RunState::Failed
    } else {
        RunState::Due
    }
}

/// So often a run is taken over; then it fails as poison.
const MAX_TAKEOVERS: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

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
}
