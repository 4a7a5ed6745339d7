//! The lifecycle of one attempt, as a pure state machine: what happened in, what to do out, `now` passed in.
//!
//! ```text
//! running ── timeout, silence, kill ──► terminating ── grace over ──► killing ──► ended
//!    └────── main process ended, its tree not ──►┘                       ▲
//!    └────── main process ended, tree empty ──────────────────────────── ┘
//! ```

use farmhand_os::clock::{MILLISECOND, SECOND};
use farmhand_warden_client::wire::{KillReason, State};

/// The warden ends an attempt this long before its hard end, so that the kernel need not.
pub(crate) const HARD_END_LEAD: u64 = SECOND / 2;
/// What outlives its main process gets at most this long after SIGTERM.
const LEFTOVER_GRACE: u64 = 5 * SECOND;
/// After SIGKILL: a process that still exists then cannot be ended by the kernel.
const UNKILLABLE_AFTER: u64 = 10 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// Time passed; or something may have changed in the tree.
    Tick,
    Asked {
        reason: KillReason,
        grace_ns: u64,
    },
    /// The main process is a zombie or reaped.
    MainEnded,
    /// A line arrived on the progress descriptor.
    Progress,
    /// Nothing of the tree is alive.
    TreeEmpty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// SIGTERM to the whole tree.
    Terminate,
    /// SIGKILL to the whole tree; given again until it is empty.
    Kill,
    /// Tell the agent that SIGKILL did not help.
    ReportUnkillable,
    /// Collect the result and report it.
    End,
}

#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: Phase,
    main_ended: bool,
    killed: Option<KillReason>,
    grace: u64,
    timeout_at: Option<u64>,
    /// Whatever the grace, SIGKILL is sent by then.
    kill_by: Option<u64>,
    silence: Option<Silence>,
}

#[derive(Debug)]
struct Silence {
    after: u64,
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Terminating {
        kill_at: u64,
    },
    Killing {
        since: u64,
        again_at: u64,
        reported: bool,
    },
    Ended,
}

/// An attempt's times, all relative except the hard end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub timeout_ms: Option<u64>,
    pub grace_ms: u64,
    pub silence_ms: Option<u64>,
    pub hard_end_ns: Option<u64>,
}

fn ns(ms: u64) -> u64 {
    ms.saturating_mul(MILLISECOND)
}

impl Lifecycle {
    pub(crate) fn new(now: u64, times: Times) -> Lifecycle {
        let grace = ns(times.grace_ms);
        let timeout = times.timeout_ms.map(|t| now.saturating_add(ns(t)));
        let kill_by = times.hard_end_ns.map(|end| end.saturating_sub(HARD_END_LEAD));
        let last_term = kill_by.map(|end| end.saturating_sub(grace));
        Lifecycle {
            phase: Phase::Running,
            main_ended: false,
            killed: None,
            grace,
            timeout_at: [timeout, last_term].into_iter().flatten().min(),
            kill_by,
            silence: times.silence_ms.map(|ms| Silence {
                after: ns(ms),
                at: now.saturating_add(ns(ms)),
            }),
        }
    }

    pub(crate) fn state(&self) -> State {
        match self.phase {
            Phase::Running => State::Running,
            Phase::Terminating { .. } => State::Terminating,
            Phase::Killing { .. } => State::Killing,
            Phase::Ended => State::Ended,
        }
    }

    pub(crate) fn killed(&self) -> Option<KillReason> {
        self.killed
    }

    pub(crate) fn main_ended(&self) -> bool {
        self.main_ended
    }

    pub(crate) fn unkillable(&self) -> bool {
        matches!(self.phase, Phase::Killing { reported: true, .. })
    }

    /// Whether the kernel's timer must still answer for it: once SIGKILL is sent nothing is gained by it.
    pub(crate) fn needs_hard_end(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Terminating { .. })
    }

    /// Call again by then.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        match self.phase {
            Phase::Running => [self.timeout_at, self.silence.as_ref().map(|s| s.at)]
                .into_iter()
                .flatten()
                .min(),
            Phase::Terminating { kill_at } => Some(kill_at),
            Phase::Killing { again_at, .. } => Some(again_at),
            Phase::Ended => None,
        }
    }

    pub(crate) fn next(&mut self, now: u64, happened: Happened) -> Option<Act> {
        match (self.phase, happened) {
            (Phase::Ended, _) => None,
            (_, Happened::TreeEmpty) if self.main_ended => {
                self.phase = Phase::Ended;
                Some(Act::End)
            }
            // Between looking at the tree and now nothing can have emptied it: the main process is in it.
            (_, Happened::TreeEmpty) => None,
            (phase, Happened::MainEnded) => {
                self.main_ended = true;
                match phase {
                    Phase::Running => self.terminate(now, self.grace.min(LEFTOVER_GRACE)),
                    _ => None,
                }
            }
            (_, Happened::Progress) => {
                if let Some(silence) = &mut self.silence {
                    silence.at = now.saturating_add(silence.after);
                }
                None
            }
            (Phase::Running, Happened::Asked { reason, grace_ns }) => {
                self.killed = Some(reason);
                self.terminate(now, grace_ns)
            }
            (Phase::Terminating { kill_at }, Happened::Asked { reason, grace_ns }) => {
                if !self.main_ended {
                    self.killed.get_or_insert(reason);
                }
                let kill_at = kill_at.min(now.saturating_add(grace_ns));
                self.phase = Phase::Terminating { kill_at };
                self.tick(now)
            }
            (Phase::Killing { .. }, Happened::Asked { .. }) => None,
            (_, Happened::Tick) => self.tick(now),
        }
    }

    fn tick(&mut self, now: u64) -> Option<Act> {
        match self.phase {
            Phase::Running => {
                let reason = if self.timeout_at.is_some_and(|at| now >= at) {
                    KillReason::Timeout
                } else if self.silence.as_ref().is_some_and(|s| now >= s.at) {
                    KillReason::Progress
                } else {
                    return None;
                };
                self.killed = Some(reason);
                self.terminate(now, self.grace)
            }
            Phase::Terminating { kill_at } if now >= kill_at => Some(self.kill(now)),
            Phase::Killing {
                since,
                again_at,
                reported,
            } if now >= again_at => {
                let stuck = now >= since + UNKILLABLE_AFTER;
                // Soon at first, so that an end is noticed at once; seldom when there seems to be none.
                let pause = ((now - since) / 4).clamp(5 * MILLISECOND, SECOND);
                let again_at = now + pause;
                self.phase = Phase::Killing {
                    since,
                    again_at,
                    reported: reported || stuck,
                };
                Some(if stuck && !reported {
                    Act::ReportUnkillable
                } else {
                    Act::Kill
                })
            }
            _ => None,
        }
    }

    fn terminate(&mut self, now: u64, grace: u64) -> Option<Act> {
        if grace == 0 {
            return Some(self.kill(now));
        }
        let kill_at = now.saturating_add(grace).min(self.kill_by.unwrap_or(u64::MAX));
        self.phase = Phase::Terminating { kill_at };
        Some(Act::Terminate)
    }

    fn kill(&mut self, now: u64) -> Act {
        self.phase = Phase::Killing {
            since: now,
            again_at: now + 2 * MILLISECOND,
            reported: false,
        };
        Act::Kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifecycle(timeout_ms: Option<u64>, grace_ms: u64) -> Lifecycle {
        Lifecycle::new(
            0,
            Times {
                timeout_ms,
                grace_ms,
                silence_ms: None,
                hard_end_ns: None,
            },
        )
    }

    #[test]
    fn a_command_that_ends_alone_ends_its_attempt_at_once() {
        let mut lifecycle = lifecycle(None, 1_000);
        assert_eq!(lifecycle.next(5, Happened::MainEnded), Some(Act::Terminate));
        assert_eq!(lifecycle.next(5, Happened::TreeEmpty), Some(Act::End));
        assert_eq!((lifecycle.state(), lifecycle.killed()), (State::Ended, None));
    }

    #[test]
    fn a_timeout_terminates_then_kills_and_is_reported_only_when_the_tree_is_empty() {
        let mut lifecycle = lifecycle(Some(100), 50);
        assert_eq!(lifecycle.next(ns(99), Happened::Tick), None);
        assert_eq!(lifecycle.next(ns(100), Happened::Tick), Some(Act::Terminate));
        assert_eq!(lifecycle.next_wake(), Some(ns(150)));
        assert_eq!(lifecycle.next(ns(150), Happened::Tick), Some(Act::Kill));
        assert_eq!(lifecycle.next(ns(151), Happened::MainEnded), None);
        assert_eq!(lifecycle.next(ns(160), Happened::Tick), Some(Act::Kill));
        assert_eq!(lifecycle.next(ns(161), Happened::TreeEmpty), Some(Act::End));
        assert_eq!(lifecycle.killed(), Some(KillReason::Timeout));
    }

    #[test]
    fn the_first_reason_stays_and_a_shorter_grace_counts() {
        let mut lifecycle = lifecycle(None, 10_000);
        let cancel = Happened::Asked {
            reason: KillReason::Cancel,
            grace_ns: ns(10_000),
        };
        let fenced = Happened::Asked {
            reason: KillReason::Fenced,
            grace_ns: 0,
        };
        assert_eq!(lifecycle.next(0, cancel), Some(Act::Terminate));
        assert_eq!(lifecycle.next(1, fenced), Some(Act::Kill));
        assert_eq!(lifecycle.killed(), Some(KillReason::Cancel));
    }

    #[test]
    fn a_kill_while_leftovers_end_does_not_turn_a_success_into_a_failure() {
        let mut lifecycle = lifecycle(None, 10_000);
        lifecycle.next(0, Happened::MainEnded);
        lifecycle.next(
            1,
            Happened::Asked {
                reason: KillReason::Lease,
                grace_ns: 0,
            },
        );
        assert_eq!(lifecycle.killed(), None);
    }

    #[test]
    fn the_hard_end_shortens_every_grace() {
        let times = Times {
            timeout_ms: Some(3_600_000),
            grace_ms: 10_000,
            silence_ms: None,
            hard_end_ns: Some(60 * SECOND),
        };
        let mut lifecycle = Lifecycle::new(0, times);
        assert_eq!(
            lifecycle.next_wake(),
            Some(60 * SECOND - HARD_END_LEAD - 10 * SECOND)
        );
        let cancel = Happened::Asked {
            reason: KillReason::Cancel,
            grace_ns: 600 * SECOND,
        };
        lifecycle.next(30 * SECOND, cancel);
        assert_eq!(lifecycle.next_wake(), Some(60 * SECOND - HARD_END_LEAD));
    }

    #[test]
    fn progress_puts_silence_off() {
        let mut lifecycle = Lifecycle::new(
            0,
            Times {
                timeout_ms: None,
                grace_ms: 0,
                silence_ms: Some(10),
                hard_end_ns: None,
            },
        );
        lifecycle.next(ns(9), Happened::Progress);
        assert_eq!(lifecycle.next(ns(18), Happened::Tick), None);
        assert_eq!(lifecycle.next(ns(19), Happened::Tick), Some(Act::Kill));
        assert_eq!(lifecycle.killed(), Some(KillReason::Progress));
    }

    #[test]
    fn what_the_kernel_cannot_end_is_reported_once_and_kept() {
        let mut lifecycle = lifecycle(None, 0);
        lifecycle.next(
            0,
            Happened::Asked {
                reason: KillReason::Cancel,
                grace_ns: 0,
            },
        );
        let mut reports = 0;
        let mut now = 0;
        while now < 60 * SECOND {
            now = lifecycle.next_wake().unwrap();
            reports += u32::from(lifecycle.next(now, Happened::Tick) == Some(Act::ReportUnkillable));
        }
        assert_eq!(
            (reports, lifecycle.state(), lifecycle.needs_hard_end()),
            (1, State::Killing, false)
        );
    }
}
