//! What an operator asked of this node: to claim nothing, to drain, to be done with it by a deadline.

use std::collections::HashSet;
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use jiff::Timestamp;

use super::{Mode, Phase, Session};
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, KillReason};

/// A drain that was asked for.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// What still runs then is ended.
    until: Option<BootInstant>,
    /// Told to end.
    told: HashSet<AttemptId>,
    drained: bool,
}

impl Drain {
    pub(super) fn next_wakeup(&self, now: BootInstant) -> Option<BootInstant> {
        self.until.filter(|until| *until > now)
    }
}

impl Session {
    /// The node's row, as an answer received at `received` had it; `drain` holds the deadline, if there is one.
    pub(super) fn ordered(
        &mut self,
        cordoned: bool,
        drain: Option<Option<Timestamp>>,
        db_now: Timestamp,
        received: BootInstant,
    ) {
        self.withheld = cordoned || drain.is_some();
        let Some(until) = drain else {
            self.drain = None;
            return;
        };
        // By the database's clock on both sides; a passed deadline is now.
        let until = until.map(|at| {
            let left = at.duration_since(db_now);
            received + std::time::Duration::try_from(left).unwrap_or_default()
        });
        match &mut self.drain {
            Some(drain) => drain.until = until,
            None => {
                self.drain = Some(Drain {
                    until,
                    ..Drain::default()
                });
                self.emit(Event::Draining { why: "by order" });
            }
        }
    }

    /// Has an attempt ended. One whose warden is yet to come is not started for that.
    pub(super) fn end(&mut self, id: AttemptId, grace: Duration, reason: KillReason) {
        if self.take_back(id) {
            return;
        }
        if self.attempts.contains_key(&id) {
            self.warden.kill(id, grace, reason);
        }
    }

    /// Its run goes back, unless a warden may have been asked to start it.
    pub(super) fn take_back(&mut self, id: AttemptId) -> bool {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return false;
        };
        let taken = self.warden.withdraw(id);
        if taken {
            attempt.phase = Phase::Refused;
            self.to_forbid.insert(id);
        }
        taken
    }

    /// Repeats a fence, a cancel or an end that came while the start request was queued and no warden could be told.
    pub(super) fn end_again(&self, id: AttemptId) {
        let Some(attempt) = self.attempts.get(&id) else {
            return;
        };
        let drained = self.drain.as_ref().is_some_and(|drain| drain.told.contains(&id));
        let leaving = matches!(self.mode, Mode::Killing { .. });
        let grace = attempt.assignment.spec.grace;
        let (reason, grace) = match (attempt.fenced, attempt.cancelled, drained || leaving) {
            (true, ..) => (KillReason::Fenced, Duration::ZERO),
            (_, true, _) => (KillReason::Cancel, grace),
            (_, _, true) => (KillReason::Shutdown, grace),
            _ => return,
        };
        self.warden.kill(id, grace, reason);
    }

    /// The warden may not have heard that this one is to end. The next poll, or the drain, says it once more.
    pub(super) fn tell_end_again(&mut self, id: AttemptId) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.cancelled = false;
        }
        if let Some(drain) = &mut self.drain {
            drain.told.remove(&id);
        }
    }

    /// At the deadline of a drain ends what still runs, as gently as each job asks; it is not counted as a retry.
    pub(super) fn drain_if_due(&mut self, now: BootInstant) {
        let Some(drain) = &mut self.drain else { return };
        if self.attempts.is_empty() {
            if !std::mem::replace(&mut drain.drained, true) {
                self.emit(Event::Drained);
            }
            return;
        }
        drain.drained = false;
        if drain.until.is_none_or(|until| now < until) {
            return;
        }
        let untold = (self.attempts.iter()).filter(|(id, a)| a.phase.may_live() && drain.told.insert(**id));
        let ending: Vec<(AttemptId, Duration)> =
            untold.map(|(id, a)| (*id, a.assignment.spec.grace)).collect();
        for (id, grace) in &ending {
            self.end(*id, *grace, KillReason::Shutdown);
        }
        if !ending.is_empty() {
            self.emit(Event::DrainDeadline {
                attempts: ending.len(),
            });
        }
    }
}
