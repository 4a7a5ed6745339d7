//! Leaving: draining, killing, or handing the jobs over to the next agent.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_store::StoreError;
use farmhand_store::protocol::{self, Closed, Freed};

use super::{Input, Mode, Phase, Session, SessionEnd};
use crate::signals::Signal;
use crate::systemd;
use farmhand_os::clock::boot_now;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::Gone;
use farmhand_warden_client::wire::{AttemptId, KillReason};

impl Session {
    pub(super) async fn on_signal(&mut self, signal: Signal) -> Option<SessionEnd> {
        match signal {
            Signal::Interrupt if self.mode == Mode::Working => self.drain("SIGINT", None),
            Signal::Interrupt | Signal::Quit => self.kill_everything(boot_now()),
            Signal::Terminate if self.hands_over() && !systemd::machine_goes_down().await => {
                return Some(SessionEnd::HandedOver);
            }
            Signal::Terminate => self.drain_by_stop_timeout(),
            Signal::Reload => self.reload(),
            Signal::Poll => {
                self.scheduler.hint();
                self.tables.poll_now(boot_now());
                self.detector.poll_now();
            }
        }
        None
    }

    /// Under systemd the next agent finds the jobs. A node that was drained by order has none, and may get no next agent: its
    /// session is closed.
    fn hands_over(&self) -> bool {
        let runs = !self.attempts.is_empty() || !self.left_behind.is_empty();
        self.ctx.hand_over && (runs || self.drain.is_none())
    }

    /// Takes over what may change while running, and tells the database.
    fn reload(&mut self) {
        let new = match (self.ctx.reload)() {
            Ok(new) => new,
            Err(error) => {
                self.emit(Event::ReloadFailed { error });
                return;
            }
        };
        let tunable = new.tunable();
        self.slots = tunable.slots;
        let used: BTreeSet<u32> = self.attempts.values().filter_map(|a| a.slot).collect();
        self.free_slots = (1..=tunable.slots).filter(|slot| !used.contains(slot)).collect();
        self.ctx.events.metrics.slots.set(i64::from(tunable.slots));
        *self.ctx.tunable.write().unwrap_or_else(PoisonError::into_inner) = tunable;
        self.emit(Event::Reloaded {
            restart_needed: self.ctx.config.restart_needed(&new),
        });
        self.describe();
        self.scheduler.hint();
    }

    /// Writes into the node's row what it says about itself now.
    fn describe(&mut self) {
        let (ctx, info) = (self.ctx.clone(), self.ctx.node_info(self.me.incarnation));
        let (session, leaving) = (self.me.session, self.mode != Mode::Working);
        self.alone.sends();
        self.spawn(async move {
            Input::Reopened(
                protocol::readopt(&ctx.db, session, &info, leaving)
                    .await
                    .map(drop),
            )
        });
    }

    /// The row says that the agent ends, and it works; or the other way round: an answer was lost, or an agent before this one said
    /// its last word late. Or it could not be written when it was to be.
    pub(super) fn correct_row(&mut self, says_leaving: bool) {
        if std::mem::take(&mut self.undescribed) || says_leaving != (self.mode != Mode::Working) {
            self.describe();
        }
    }

    /// The labels are those of the node's row from here on: what they let in was not there for an earlier claim.
    pub(super) fn on_reopened(&mut self, result: Result<(), StoreError>) {
        match result {
            Ok(()) if self.mode == Mode::Working => self.scheduler.hint(),
            Ok(()) => {}
            Err(e) => {
                self.undescribed = true;
                tracing::warn!(
                    "the database does not have this node's slots, labels and state as they are now: {e}; they are \
                     written again after the next poll"
                );
            }
        }
    }

    /// Also what a SIGINT began to drain, which has no end of its own.
    fn drain_by_stop_timeout(&mut self) {
        let until = boot_now() + self.ctx.tunable().stop_timeout;
        let ends_before = matches!(self.mode, Mode::Draining { until: Some(earlier) } if earlier <= until);
        if ends_before || matches!(self.mode, Mode::Killing { .. }) {
            return;
        }
        systemd::going_down();
        self.drain("SIGTERM", Some(until));
    }

    fn drain(&mut self, why: &'static str, until: Option<BootInstant>) {
        self.mode = Mode::Draining { until };
        self.emit(Event::Draining { why });
        self.describe();
    }

    fn kill_everything(&mut self, now: BootInstant) {
        self.emit(Event::Draining {
            why: "killing what runs",
        });
        self.mode = Mode::Killing {
            give_up: now + KILLED_WITHIN,
        };
        let ids: Vec<AttemptId> = self.attempts.keys().copied().collect();
        for id in ids {
            self.take_back(id);
        }
        self.warden.kill_all(Duration::ZERO, KillReason::Shutdown);
    }

    /// As at the deadline of a drain: each attempt has its job's grace.
    fn end_what_runs(&mut self, now: BootInstant) {
        self.emit(Event::Draining {
            why: "ending what runs",
        });
        let ending = self.attempts.iter().map(|(id, a)| (*id, a.assignment.spec.grace));
        let ending: Vec<(AttemptId, Duration)> = ending.collect();
        for (id, grace) in &ending {
            self.end(*id, *grace, KillReason::Shutdown);
        }
        let longest = ending.iter().map(|(_, grace)| *grace).max().unwrap_or_default();
        self.mode = Mode::Killing {
            give_up: now + longest + KILLED_WITHIN,
        };
    }

    /// Whether the session has come to its end.
    pub(super) async fn check_end(&mut self, now: BootInstant) -> Option<SessionEnd> {
        match self.mode {
            Mode::Working => return None,
            Mode::Draining { until } => {
                // What a claim under way wins is to be known before the session is closed.
                if self.attempts.is_empty() && self.scheduler.is_idle() {
                    return Some(self.close().await);
                }
                if until.is_some_and(|until| now >= until) {
                    self.end_what_runs(now);
                }
            }
            // With the database away what ended cannot be written down; the lease then says it.
            Mode::Killing { give_up }
                if self.attempts.is_empty() && self.scheduler.is_idle() || now > give_up =>
            {
                return Some(self.close().await);
            }
            Mode::Killing { .. } => {}
        }
        None
    }

    /// Nothing runs: ends the warden, then the session.
    async fn close(&mut self) -> SessionEnd {
        systemd::while_waiting("closing the session", self.close_it()).await
    }

    async fn close_it(&mut self) -> SessionEnd {
        let ended = self.end_warden(Duration::ZERO).await != Some(false);
        // No warden tells of what a dead one left.
        let left = self.alive_of_left_behind().await;
        if !ended || !self.stuck.is_empty() || !left.is_ok_and(|alive| alive.is_empty()) {
            tracing::error!(
                "session {} is left to lapse: something of it may live",
                self.me.session
            );
            return SessionEnd::Closed;
        }
        if self.attempts.values().any(|a| a.phase == Phase::Ended) {
            // Closing would free their runs, and what has succeeded would run again.
            tracing::warn!(
                "session {} is left to lapse: ends are not written down yet",
                self.me.session
            );
            return SessionEnd::Closed;
        }
        // Another agent may run the rest: a newer one of this machine, or one of its copy.
        let (attempts, left_behind) = (&self.attempts, &self.left_behind);
        let known = |freed: &Freed| {
            let id = AttemptId {
                run_id: freed.run_id,
                attempt: freed.attempt,
            };
            let here = attempts.get(&id);
            here.is_some_and(|a| a.assignment.fence == freed.fence) || left_behind.contains(&id)
        };
        match protocol::close_if(&self.ctx.db, &self.me, known).await {
            Ok(Closed::Done { freed }) => {
                self.emit(Event::SessionClosed {
                    session: self.me.session,
                    freed: freed.len(),
                });
            }
            Ok(Closed::Already) => {}
            Ok(Closed::Shared) if !self.scheduler.is_idle() || self.alone.may_have_claimed(boot_now()) => {
                tracing::warn!(
                    "session {} is left to lapse: it holds a run whose claim had no answer here",
                    self.me.session
                );
            }
            Ok(Closed::Shared) => self.emit(Event::SessionShared {
                session: self.me.session,
            }),
            Err(e) => self.emit(Event::database_down("close", &e)),
        }
        SessionEnd::Closed
    }

    pub(super) fn note_gone(&self, gone: &std::io::Result<Gone>) {
        match gone {
            Ok(Gone::Empty { swept: 0 }) => {}
            Ok(Gone::Empty { swept }) => {
                tracing::warn!(
                    "the warden and its reaper were both gone; {swept} processes were left and ended"
                );
            }
            Ok(Gone::Unkillable { pids }) => {
                tracing::error!("the warden is gone; the kernel cannot end its processes {pids:?}");
            }
            Err(e) => tracing::error!("looking for what the warden left: {e}"),
        }
    }
}

/// After everything should be dead, how long to wait for it to be written down.
const KILLED_WITHIN: Duration = Duration::from_secs(8);
