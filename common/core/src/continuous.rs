//! What follows a round of a continuous job.

use std::time::Duration;

use super::retry::{Backoff, Retry, ceiling, full_jitter};
use super::run::{AttemptEnd, Outcome};

/// The shortest pause after a failure, whatever `retry` says: a job that cannot start must not busy the farm.
pub const SHORTEST: Duration = Duration::from_millis(100);

/// When a command that is always due runs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Exit codes by which it says that it found nothing to do.
    pub idle_exit: Vec<i32>,
    /// The pause after one of them.
    pub idle_delay: Duration,
    /// The pauses after failures; `max` has no meaning.
    pub retry: Retry,
}

/// The first pause after a failure, where nothing else is said: no due instant is waited for.
pub const BASE: Duration = Duration::from_secs(1);

/// The end of a round, and when the next one is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    pub outcome: Outcome,
    /// It said that it found nothing to do.
    pub idle: bool,
    /// Until the next round.
    pub again: Duration,
}

/// `failures` are the rounds that failed in a row before this one; `random` is uniform over all of `u64`. A
/// round whose cancelling was requested is followed at once: pausing the job stops it.
pub fn after_round(
    end: AttemptEnd,
    rounds: &Rounds,
    failures: u32,
    cancel_requested: bool,
    random: u64,
) -> Round {
    let at_once = |outcome| Round {
        outcome,
        idle: false,
        again: Duration::ZERO,
    };
    match end {
        AttemptEnd::Exited(0) => at_once(Outcome::Succeeded),
        AttemptEnd::Exited(code) if rounds.idle_exit.contains(&code) => Round {
            outcome: Outcome::Succeeded,
            idle: true,
            again: rounds.idle_delay,
        },
        AttemptEnd::Cancelled => at_once(Outcome::Cancelled),
        _ if cancel_requested => at_once(Outcome::Cancelled),
        end => Round {
            outcome: if end == AttemptEnd::TimedOut {
                Outcome::TimedOut
            } else {
                Outcome::Failed
            },
            idle: false,
            again: pause(&rounds.retry, failures.saturating_add(1), random),
        },
    }
}

/// Half of the bound is certain, so that a job which always fails rests between its rounds; the other half is
/// chance, so that those which fail together do not come back together. Constant back-off ignores it.
fn pause(policy: &Retry, failures: u32, random: u64) -> Duration {
    let bound = ceiling(policy, failures);
    let pause = match policy.backoff {
        Backoff::Constant => bound,
        Backoff::Linear | Backoff::Exponential => bound / 2 + full_jitter(bound / 2, random),
    };
    pause.max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds() -> Rounds {
        Rounds {
            idle_exit: vec![250],
            idle_delay: Duration::from_secs(30),
            retry: Retry {
                base: Duration::from_secs(1),
                ..Retry::default()
            },
        }
    }

    fn after(end: AttemptEnd, failures: u32, random: u64) -> Round {
        after_round(end, &rounds(), failures, false, random)
    }

    #[test]
    fn a_success_is_followed_at_once_and_an_idle_one_after_its_pause() {
        let done = after(AttemptEnd::Exited(0), 7, 1);
        assert_eq!(
            (done.outcome, done.idle, done.again),
            (Outcome::Succeeded, false, Duration::ZERO)
        );
        let idle = after(AttemptEnd::Exited(250), 7, 1);
        assert_eq!(
            (idle.outcome, idle.idle, idle.again),
            (Outcome::Succeeded, true, Duration::from_secs(30))
        );
    }

    #[test]
    fn failures_back_off_for_ever_and_never_below_half_of_the_bound() {
        for (failures, bound) in [(0, 1), (1, 2), (5, 32), (9, 300), (1_000_000, 300)] {
            let bound = Duration::from_secs(bound);
            for random in [0, 1 << 63, u64::MAX] {
                let round = after(AttemptEnd::Signalled(9), failures, random);
                assert_eq!(round.outcome, Outcome::Failed);
                assert!(
                    round.again >= bound / 2 && round.again <= bound,
                    "{failures}: {round:?}"
                );
            }
        }
    }

    #[test]
    fn no_policy_makes_a_failure_follow_another_without_a_pause() {
        let rounds = Rounds {
            retry: Retry {
                base: Duration::ZERO,
                cap: Duration::ZERO,
                ..Retry::default()
            },
            ..rounds()
        };
        let round = after_round(AttemptEnd::NotStarted, &rounds, 3, false, 0);
        assert_eq!(round.again, SHORTEST);
    }

    #[test]
    fn a_cancelled_round_is_followed_at_once() {
        let round = after_round(AttemptEnd::Signalled(15), &rounds(), 3, true, u64::MAX);
        assert_eq!((round.outcome, round.again), (Outcome::Cancelled, Duration::ZERO));
    }
}
