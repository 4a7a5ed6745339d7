//! What was claimed and will not be started here goes back to the farm. Where the machine refuses starts, less is claimed
//! until something starts again.

use farmhand_core::definition::JobSpec;
use farmhand_os::clock::boot_now;
use farmhand_os::random::random;
use farmhand_store::protocol::{self, Claimed};
use farmhand_telemetry::events::Event;
use farmhand_warden_client::request::Assignment;
use farmhand_warden_client::wire::AttemptId;

use super::{Attempt, Phase, Session};

/// Ended attempts that may wait to be written down before no more are claimed: a bound on memory.
const UNSETTLED_MAX: usize = 4_096;

/// Of what a node's row says.
const WHY_MAX: usize = 300;

impl Session {
    /// Runs that may be claimed now: a slot and a place in the warden for each. An attempt has its place until its end is written
    /// down, so of all attempts here none is started by a warden that is full. Where a reload left fewer slots than run, a low
    /// number that becomes free is none to claim for.
    pub(super) fn room(&self) -> usize {
        let used = self.attempts.values().filter(|a| a.slot.is_some()).count();
        let slots = usize::try_from(self.slots).unwrap_or(usize::MAX);
        let free = self.free_slots.len().min(slots.saturating_sub(used));
        let places = usize::try_from(self.warden.max_attempts()).unwrap_or(usize::MAX);
        let room = places.min(UNSETTLED_MAX).saturating_sub(self.attempts.len());
        self.ctx.start_pause().bounds(free).min(room)
    }

    /// Said once: the limit is the process's own, and stays.
    pub(super) fn warn_of_few_places(&self) {
        let places = self.warden.max_attempts();
        if places < self.slots {
            tracing::warn!(
                "{places} runs at most run here at once, and not {}: the hard limit of open files is too low; raise it \
                 (LimitNOFILE= of systemd) to {} or more",
                self.slots,
                u64::from(self.slots) * 8 + 64
            );
        }
    }

    /// Its slot stays taken until its run is given back.
    pub(super) fn start_refused(&mut self, id: AttemptId, mut why: String) {
        let Some(attempt) = self.attempts.get_mut(&id).filter(|a| a.phase == Phase::Starting) else {
            return;
        };
        tracing::debug!("run {} attempt {} was not started: {why}", id.run_id, id.attempt);
        attempt.phase = Phase::Refused;
        self.to_forbid.insert(id);
        why = why.chars().take(WHY_MAX).collect();
        if self.ctx.start_pause().refused(boot_now(), random(), &why) {
            self.emit(Event::StartsRefused { why });
            self.lease.renew_now();
        }
        self.show_slots();
    }

    /// Won too late to be used, or while leaving: no warden has heard of it. The session waits until it is given back.
    pub(super) fn claimed_in_vain(&mut self, run: &Claimed) {
        let assignment = Assignment::new(run, JobSpec::default(), self.me.session);
        let id = assignment.id();
        if self.attempts.contains_key(&id) {
            // A failover lost the claim of the one that is here: the renewals end that, then give this one back.
            self.alone.unsure(boot_now());
            return;
        }
        self.to_forbid.insert(id);
        self.attempts.insert(id, Attempt::new(assignment, Phase::Refused));
    }

    pub(super) fn start_succeeded(&mut self) {
        let started = self.ctx.start_pause().started(boot_now(), self.slots);
        if let Some(after) = started {
            self.emit(Event::StartsResumed { after });
            self.lease.renew_now();
        }
    }

    /// No warden may start them when the runs go back: a tombstone comes first.
    pub(super) fn forbid_refused(&mut self) {
        if !self.to_forbid.is_empty() {
            let ids = std::mem::take(&mut self.to_forbid);
            self.warden.forbid(ids.into_iter().collect());
        }
    }

    /// What a renewal still shows as held: a warden or the database did not answer.
    pub(super) fn forbid_again(&mut self, held: &[protocol::Attempt]) {
        let refused = held.iter().map(|of| AttemptId::from(*of)).filter(|id| {
            let here = self.attempts.get(id);
            here.is_some_and(|a| a.phase == Phase::Refused)
        });
        self.to_forbid.extend(refused);
    }

    /// Of these, with their fences.
    pub(super) fn refused_of(&self, ids: &[AttemptId]) -> Vec<protocol::Attempt> {
        let refused = |id: &AttemptId| {
            let here = self.attempts.get(id).filter(|a| a.phase == Phase::Refused);
            here.map(|a| id.fenced(a.assignment.fence))
        };
        ids.iter().filter_map(refused).collect()
    }

    pub(super) fn on_given_back(&mut self, ids: &[AttemptId]) {
        for id in ids {
            self.settle_refused(*id);
        }
    }

    /// Its run is not held here any more. False for what was not refused.
    pub(super) fn settle_refused(&mut self, id: AttemptId) -> bool {
        if self.attempts.get(&id).is_none_or(|a| a.phase != Phase::Refused) {
            return false;
        }
        self.warden.ack(id);
        self.forget(id);
        // Nobody else may want it.
        self.scheduler.hint();
        true
    }
}
