//! The attempts that this session has, and the places for more.

use std::collections::{BTreeSet, HashMap, HashSet};

use farmhand_core::lease::BootInstant;
use farmhand_os::clock::boot_now;
use farmhand_store::progress::Progress;
use farmhand_store::protocol::Freed;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::request::Assignment;
use farmhand_warden_client::wire::{AttemptId, AttemptResult, ChildKill};

use super::warden::WardenLink;
use crate::reporter::Report;
use crate::session::io::Io;
use crate::session::lease::Deadlines;
use crate::verdict::Verdict;

/// Ended attempts that may wait to be written down before no more are claimed: a bound on memory.
const UNSETTLED_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The warden has been asked.
    Starting,
    Running,
    /// Not started here: the machine would not, or it was won too late. Its run is being given back.
    Refused,
    /// Reported by the warden, being written down.
    Ended,
}

impl Phase {
    pub(super) fn may_live(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

pub(super) struct Attempt {
    pub(super) assignment: Assignment,
    pub(super) slot: Option<u32>,
    /// Read before the claim was sent; for adopted attempts, before the adoption.
    pub(super) since: BootInstant,
    pub(super) phase: Phase,
    pub(super) cancelled: bool,
    /// Being ended, because the database does not show it as ours.
    pub(super) fenced: bool,
    /// Killed, and the kernel does not end it.
    pub(super) unkillable: bool,
    /// The newest of its children's ends that is an event already.
    pub(super) kills_heard: u64,
}

impl Attempt {
    /// As of what no warden is asked to start.
    pub(super) fn new(assignment: Assignment, phase: Phase) -> Self {
        Self {
            assignment,
            slot: None,
            since: boot_now(),
            phase,
            cancelled: false,
            fenced: false,
            unkillable: false,
            kills_heard: 0,
        }
    }

    /// It has ended: its slot is free, and the reporter writes the end down.
    pub(super) fn ends(
        &mut self,
        io: &Io,
        slots: &mut Slots,
        result: Option<AttemptResult>,
        verdict: Verdict,
    ) {
        self.phase = Phase::Ended;
        slots.free(self.slot.take());
        io.report(Report::ended(&io.me, &self.assignment, result, verdict));
    }
}

/// What others have to do about an attempt that was started, or was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    Nothing,
    /// What this node says about itself has changed.
    Renewal,
    /// The database may show something as held that is not known here.
    Unsure,
    Refusal,
}

pub(super) struct Slots {
    pub(super) count: u32,
    free: BTreeSet<u32>,
}

impl Slots {
    pub(super) fn new(count: u32) -> Self {
        Self {
            count,
            free: (1..=count).collect(),
        }
    }

    /// How many are free while `used` are not. Where a reload left fewer slots than run, a low number that becomes free is none to
    /// claim for.
    pub(super) fn left(&self, used: usize) -> usize {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        self.free.len().min(count.saturating_sub(used))
    }

    /// This very one, where no other attempt has it.
    pub(super) fn keep(&mut self, slot: u32) -> bool {
        slot > self.count || self.free.remove(&slot)
    }

    /// A number that no attempt has: above the slots where a reload left fewer while a claim was under way.
    pub(super) fn take(&mut self, is_used: impl Fn(u32) -> bool) -> u32 {
        let free = self.free.pop_first();
        free.or_else(|| (self.count.saturating_add(1)..).find(|slot| !is_used(*slot)))
            .unwrap_or(u32::MAX)
    }

    /// One above the present number was taken before a reload.
    pub(super) fn free(&mut self, slot: Option<u32>) {
        self.free.extend(slot.filter(|slot| *slot <= self.count));
    }

    pub(super) fn resize(&mut self, count: u32, is_used: impl Fn(u32) -> bool) {
        self.count = count;
        self.free = (1..=count).filter(|slot| !is_used(*slot)).collect();
    }
}

pub(crate) struct Attempts {
    pub(super) by_id: HashMap<AttemptId, Attempt>,
    pub(super) slots: Slots,
    /// Refused by the machine; the warden is still to be told that they never start.
    pub(super) to_forbid: BTreeSet<AttemptId>,
    /// Attempts of a dead warden that are held until its last process has ended.
    pub(super) stuck: HashSet<AttemptId>,
    /// What a warden that was dead at the adoption had begun: lost, not "never started".
    pub(super) left_behind: HashSet<AttemptId>,
    pub(crate) warden: WardenLink,
}

impl Attempts {
    pub(crate) fn new(slots: u32, warden: WardenLink, left_behind: HashSet<AttemptId>) -> Self {
        let places = warden.max_attempts();
        if places < slots {
            // Said once: the limit is the process's own, and stays.
            tracing::warn!(
                "{places} runs at most run here at once, and not {slots}: the hard limit of open files is too low; raise it \
                 (LimitNOFILE= of systemd) to {} or more",
                u64::from(slots) * 8 + 64
            );
        }
        Self {
            by_id: HashMap::new(),
            slots: Slots::new(slots),
            to_forbid: BTreeSet::new(),
            stuck: HashSet::new(),
            left_behind,
            warden,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots.count
    }

    /// Whether anything here is for the next agent.
    pub(crate) fn leaves_something(&self) -> bool {
        !self.by_id.is_empty() || !self.left_behind.is_empty()
    }

    /// Runs that may be claimed now: a slot and a place in the warden for each. An attempt has its place until its end is written
    /// down, so of all attempts here none is started by a warden that is full.
    pub(crate) fn room(&self, io: &Io) -> usize {
        let used = self.by_id.values().filter(|a| a.slot.is_some()).count();
        let places = usize::try_from(self.warden.max_attempts()).unwrap_or(usize::MAX);
        let room = places.min(UNSETTLED_MAX).saturating_sub(self.by_id.len());
        io.ctx.start_pause().bounds(self.slots.left(used)).min(room)
    }

    pub(super) fn take_slot(&mut self) -> u32 {
        let by_id = &self.by_id;
        (self.slots).take(|slot| by_id.values().any(|a| a.slot == Some(slot)))
    }

    pub(crate) fn resize(&mut self, io: &Io, slots: u32) {
        let used: BTreeSet<u32> = self.by_id.values().filter_map(|a| a.slot).collect();
        self.slots.resize(slots, |slot| used.contains(&slot));
        io.ctx.events.metrics.slots.set(i64::from(slots));
    }

    pub(crate) fn show_slots(&self, io: &Io) {
        let metrics = &io.ctx.events.metrics;
        let shown = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let used = self.by_id.iter().filter(|(_, a)| a.phase != Phase::Ended);
        let unkillable = (used.clone()).filter(|(id, a)| a.unkillable || self.stuck.contains(id));
        metrics.runs_unkillable.set(shown(unkillable.count()));
        metrics.runs_in_progress.set(shown(used.count()));
    }

    pub(crate) fn living(&self) -> Vec<AttemptId> {
        let living = self.by_id.iter().filter(|(_, a)| a.phase.may_live());
        living.map(|(id, _)| *id).collect()
    }

    pub(crate) fn all(&self) -> Vec<AttemptId> {
        self.by_id.keys().copied().collect()
    }

    /// Moves the warden's end. Not while it still runs something which the database does not show as ours.
    pub(crate) fn tell_deadlines(&mut self, deadlines: Deadlines) {
        if !self.by_id.values().any(|a| a.fenced && a.phase.may_live()) {
            self.warden.tell_deadlines(deadlines);
        }
    }

    pub(crate) fn progressed(&self, io: &Io, id: AttemptId, checkpoint: Option<String>) {
        let living = self.by_id.get(&id).filter(|a| a.phase.may_live());
        let Some(attempt) = living else { return };
        io.ctx.checkpoints.note(Progress {
            run_id: id.run_id,
            attempt: id.attempt,
            fence: attempt.assignment.fence,
            address: io.me.address.clone(),
            session: attempt.assignment.session,
            checkpoint,
        });
    }

    pub(crate) fn children_killed(&mut self, io: &Io, id: AttemptId, kills: &[ChildKill]) {
        let Some(attempt) = self.by_id.get_mut(&id) else {
            return;
        };
        let fresh: Vec<&ChildKill> = (kills.iter())
            .filter(|kill| kill.number > attempt.kills_heard)
            .collect();
        let Some(newest) = fresh.iter().map(|kill| kill.number).max() else {
            return;
        };
        attempt.kills_heard = newest;
        for kill in fresh {
            io.emit(Event::ChildKilled {
                attempt: attempt.assignment.about(),
                name: kill.name.clone(),
                pid: kill.pid,
                what: kill.to_string(),
            });
        }
        self.warden.heard(id, newest);
    }

    pub(crate) fn unkillable(&mut self, io: &Io, id: AttemptId) {
        io.emit(Event::Unkillable {
            run_id: id.run_id,
            attempt: id.attempt,
        });
        if let Some(attempt) = self.by_id.get_mut(&id) {
            attempt.unkillable = true;
        }
        self.show_slots(io);
    }

    pub(crate) fn has_unwritten(&self) -> bool {
        self.by_id.values().any(|a| a.phase == Phase::Ended)
    }

    pub(crate) fn unstarted(&self) -> Vec<i64> {
        let refused = self.by_id.iter().filter(|(_, a)| a.phase == Phase::Refused);
        refused.map(|(id, _)| id.run_id).collect()
    }

    /// Whether this run is of an attempt that is known here.
    pub(crate) fn knows_freed(&self, freed: &Freed) -> bool {
        let id = AttemptId {
            run_id: freed.run_id,
            attempt: freed.attempt,
        };
        let here = self.by_id.get(&id);
        here.is_some_and(|a| a.assignment.fence == freed.fence) || self.left_behind.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_above_the_present_number_is_nobodys_once_its_attempt_has_ended() {
        let mut slots = Slots::new(2);
        assert_eq!((slots.take(|_| false), slots.take(|_| false)), (1, 2));
        assert_eq!(slots.take(|slot| slot <= 3), 4, "a claim was under way");
        slots.resize(1, |slot| slot != 1);
        assert_eq!((slots.left(2), slots.left(0)), (0, 1));
        slots.free(Some(4));
        assert_eq!(slots.left(0), 1);
        assert!(slots.keep(4), "adopted with it");
        assert!(slots.keep(1) && !slots.keep(1), "once");
    }
}
