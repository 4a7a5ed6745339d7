//! Limits that the kernel does not enforce here are watched once a second instead: the sum of the resident
//! memory and the number of processes of an attempt's tree. A tree beyond them is killed.

use super::attempt::Attempt;
use super::lifecycle::Happened;
use super::tree;
use super::warden::{WATCH_LIMITS, Warden};
use farmhand_os::clock::boottime_ns;
use farmhand_os::process;
use farmhand_warden_client::death::cgroup::Group;
use farmhand_warden_client::wire::{AttemptId, KillReason};

impl Attempt {
    /// Whether the warden must look at its processes from time to time.
    pub(super) fn watches(&self) -> bool {
        self.watches_limits() || self.watches_children()
    }

    fn watches_limits(&self) -> bool {
        self.lifecycle.needs_hard_end()
            && (self.memory_watched().is_some() || self.processes_watched().is_some())
    }

    fn memory_watched(&self) -> Option<u64> {
        let enforced = self.group.as_ref().is_some_and(|g: &Group| g.memory_enforced);
        self.request.limits.memory.filter(|_| !enforced)
    }

    fn processes_watched(&self) -> Option<u32> {
        let enforced = self.group.as_ref().is_some_and(|g: &Group| g.processes_enforced);
        self.request.limits.processes.filter(|_| !enforced)
    }
}

impl Warden {
    pub(super) fn watch_limits(&mut self, now: u64) {
        if now < self.watch_limits_at {
            return;
        }
        let watched: Vec<AttemptId> = self
            .living
            .values()
            .filter(|a| a.watches())
            .map(|a| a.id)
            .collect();
        if watched.is_empty() {
            return;
        }
        self.watch_limits_at = now + WATCH_LIMITS;
        self.take_census();
        for id in watched {
            self.watch_children(id);
            let Some(attempt) = self.living.get_mut(&id).filter(|a| a.watches_limits()) else {
                continue;
            };
            let members = tree::members(attempt, self.census.of(id));
            let rss = match attempt.executes() {
                true => members.iter().filter_map(|s| process::rss_bytes(s.pid)).sum(),
                // A copy of the warden, of its size.
                false => 0,
            };
            attempt.watched_rss = attempt.watched_rss.max(rss);
            let reason = if attempt.memory_watched().is_some_and(|most| rss > most) {
                KillReason::LimitMemory
            } else if attempt
                .processes_watched()
                .is_some_and(|most| members.len() > most as usize)
            {
                KillReason::LimitProcesses
            } else {
                continue;
            };
            let act = attempt
                .lifecycle
                .next(boottime_ns(), Happened::Asked { reason, grace_ns: 0 });
            self.act(id, act);
        }
    }
}
