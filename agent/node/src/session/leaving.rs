//! What an operator or a signal asked of this node: to claim nothing, to drain, to be done by a deadline, to leave.

use std::collections::HashSet;
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_store::StoreError;
use farmhand_store::protocol;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::AttemptId;
use jiff::Timestamp;

use super::io::Io;
use crate::inbox::Input;

/// After everything should be dead, how long to wait for it to be written down.
const KILLED_WITHIN: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Working,
    /// Claims nothing more; what still runs at `until` is ended.
    Draining { until: Option<BootInstant> },
    /// Everything has been told to die; what is not written down by `give_up` is left to the lease.
    Killing { give_up: BootInstant },
}

#[derive(Debug, Default)]
struct Drain {
    /// What still runs then is ended.
    until: Option<BootInstant>,
    told: HashSet<AttemptId>,
    drained: bool,
}

/// What is to be done about leaving now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wait,
    EndWhatRuns,
    Close,
}

#[derive(Debug, Default)]
pub(crate) struct Leaving {
    mode: Mode,
    drain: Option<Drain>,
    /// Set in the node's row by an operator.
    withheld: bool,
    /// What this node says about itself is not in its row.
    undescribed: bool,
}

impl Leaving {
    /// The agent does not leave.
    pub(crate) fn works(&self) -> bool {
        self.mode == Mode::Working
    }

    pub(crate) fn is_withheld(&self) -> bool {
        self.withheld
    }

    pub(crate) fn is_drained_by_order(&self) -> bool {
        self.drain.is_some()
    }

    pub(crate) fn next_wakeups(&self, now: BootInstant) -> impl Iterator<Item = BootInstant> {
        let mode = match self.mode {
            Mode::Draining { until } => until,
            _ => None,
        };
        let drain = self.drain.as_ref().and_then(|drain| drain.until);
        mode.into_iter().chain(drain.filter(|until| *until > now))
    }

    /// The node's row, as an answer received at `received` had it; `drain` holds the deadline, if there is one.
    pub(crate) fn ordered(
        &mut self,
        io: &Io,
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
            received + Duration::try_from(left).unwrap_or_default()
        });
        if self.drain.is_none() {
            io.emit(Event::Draining { why: "by order" });
        }
        self.drain.get_or_insert_default().until = until;
    }

    /// Whether the deadline of an ordered drain has passed and something runs still.
    pub(crate) fn drain_is_due(&mut self, io: &Io, now: BootInstant, nothing_runs: bool) -> bool {
        let Some(drain) = &mut self.drain else {
            return false;
        };
        if !std::mem::replace(&mut drain.drained, nothing_runs) && nothing_runs {
            io.emit(Event::Drained);
        }
        !nothing_runs && drain.until.is_some_and(|until| now >= until)
    }

    /// Whether the drain has not told this one to end yet; it does now.
    pub(crate) fn tells(&mut self, id: AttemptId) -> bool {
        self.drain.as_mut().is_some_and(|drain| drain.told.insert(id))
    }

    /// The warden may not have heard that this one is to end.
    pub(crate) fn tell_again(&mut self, id: AttemptId) {
        if let Some(drain) = &mut self.drain {
            drain.told.remove(&id);
        }
    }

    /// Whether this one is to end because the node drains or the agent leaves.
    pub(crate) fn ends(&self, id: AttemptId) -> bool {
        matches!(self.mode, Mode::Killing { .. })
            || self.drain.as_ref().is_some_and(|drain| drain.told.contains(&id))
    }

    pub(crate) fn drain(&mut self, io: &Io, why: &'static str, until: Option<BootInstant>) {
        self.mode = Mode::Draining { until };
        io.emit(Event::Draining { why });
    }

    /// Whether what runs ends by `until` without another word.
    pub(crate) fn ends_by(&self, until: BootInstant) -> bool {
        match self.mode {
            Mode::Working => false,
            Mode::Draining { until: earlier } => earlier.is_some_and(|earlier| earlier <= until),
            Mode::Killing { .. } => true,
        }
    }

    /// What runs was told to end, with `grace` at the most.
    pub(crate) fn kill(&mut self, io: &Io, why: &'static str, now: BootInstant, grace: Duration) {
        io.emit(Event::Draining { why });
        self.mode = Mode::Killing {
            give_up: now + grace + KILLED_WITHIN,
        };
    }

    /// `idle`: nothing is here, and no claim is under way whose answer is to be known before the session is closed.
    pub(crate) fn step(&self, now: BootInstant, idle: bool) -> Step {
        match self.mode {
            Mode::Draining { .. } | Mode::Killing { .. } if idle => Step::Close,
            Mode::Draining { until: Some(until) } if now >= until => Step::EndWhatRuns,
            // With the database away what ended cannot be written down; the lease then says it.
            Mode::Killing { give_up } if now > give_up => Step::Close,
            _ => Step::Wait,
        }
    }

    /// Writes into the node's row what it says about itself now.
    pub(crate) fn describe(&self, io: &Io) {
        let (ctx, info) = (io.ctx.clone(), io.ctx.node_info(io.me.incarnation));
        let (session, leaving) = (io.me.session, !self.works());
        io.spawn(async move {
            let written = protocol::readopt(&ctx.db, session, &info, leaving).await;
            Input::Reopened(written.map(drop))
        });
    }

    /// Whether the row is to be written again. It says that the agent ends, and it works; or the other way round: an answer was lost,
    /// or an agent before this one said its last word late. Or it could not be written when it was to be.
    pub(crate) fn row_is_wrong(&mut self, says_leaving: bool) -> bool {
        std::mem::take(&mut self.undescribed) || says_leaving == self.works()
    }

    /// Whether the row is right, and runs may be claimed: the labels are the row's from here on, and what they let in was not there for
    /// an earlier claim.
    pub(crate) fn described(&mut self, result: Result<(), StoreError>) -> bool {
        if let Err(e) = &result {
            self.undescribed = true;
            tracing::warn!(
                "the database does not have this node's slots, labels and state as they are now: {e}; they are \
                 written again after the next poll"
            );
        }
        result.is_ok() && self.works()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_about_leaving_follows_from_mode_time_and_what_is_here() {
        let (at, before, after) = (BootInstant(20), BootInstant(19), BootInstant(21));
        let (draining, killing) = (Mode::Draining { until: Some(at) }, Mode::Killing { give_up: at });
        let endless = Mode::Draining { until: None };
        for (mode, now, idle, step) in [
            (Mode::Working, after, true, Step::Wait),
            (endless, after, false, Step::Wait),
            (endless, after, true, Step::Close),
            (draining, before, false, Step::Wait),
            (draining, at, false, Step::EndWhatRuns),
            (draining, at, true, Step::Close),
            (killing, at, false, Step::Wait),
            (killing, before, true, Step::Close),
            (killing, after, false, Step::Close),
        ] {
            let leaving = Leaving {
                mode,
                ..Leaving::default()
            };
            assert_eq!(leaving.step(now, idle), step, "{mode:?} {now:?} {idle}");
        }
    }
}
