//! The process trees of all attempts: whose a process is, what is left of a tree, and what of it is beyond its limits where
//! the kernel does not enforce them.

use std::path::PathBuf;

use super::attempt::Attempt;
use super::attempts::Attempts;
use super::tree;
use farmhand_os::clock::SECOND;
use farmhand_os::process::{self, Stat};
use farmhand_warden_client::death::census::Census;
use farmhand_warden_client::wire::{AttemptId, KillReason};

const WATCH_LIMITS: u64 = SECOND;

#[derive(Debug)]
pub(super) struct Trees {
    census: Census,
    /// In this turn of the loop.
    counted: bool,
    watch_limits_at: u64,
    /// Where the attempts' directories are.
    runs: PathBuf,
    /// With cgroups, only orphans need to be attributed; without, everything.
    has_cgroups: bool,
}

impl Trees {
    pub(super) fn new(runs: PathBuf, has_cgroups: bool) -> Self {
        Self {
            census: Census::default(),
            counted: false,
            watch_limits_at: 0,
            runs,
            has_cgroups,
        }
    }

    /// What was counted is of an earlier turn.
    pub(super) fn begin_turn(&mut self) {
        self.counted = false;
    }

    /// When limits are to be looked at again.
    pub(super) fn watch_limits_at(&self) -> u64 {
        self.watch_limits_at
    }

    /// The processes of an attempt that are found by descent. Counted once in a turn, which is enough for signals: they are
    /// repeated where it matters.
    pub(super) fn of(&mut self, id: AttemptId, attempts: &Attempts) -> &[Stat] {
        if !self.counted {
            self.count(attempts);
        }
        self.census.of(id)
    }

    fn count(&mut self, attempts: &Attempts) {
        self.counted = true;
        let mut tops = process::own_children();
        if self.has_cgroups {
            tops.retain(|pid| attempts.of_main(*pid).is_none());
        }
        if tops.is_empty() {
            return self.census.clear();
        }
        let members: Vec<_> = attempts.living().map(Attempt::member).collect();
        self.census.take(tops, &members, &self.runs);
        for stat in &self.census.left_behind {
            let _ = process::signal(stat, rustix::process::Signal::KILL);
        }
    }

    /// Whether nothing is left of an attempt whose main process has ended.
    pub(super) fn is_empty(&mut self, id: AttemptId, attempts: &Attempts) -> bool {
        // Walking a tree is no snapshot: without a cgroup, a process that forks and exits meanwhile can be
        // missed once. What is missed twice is found as left behind.
        let looks = if self.has_cgroups { 1 } else { 2 };
        (0..looks).all(|_| {
            self.count(attempts);
            let attempt = attempts.get(id);
            attempt.is_some_and(|attempt| tree::is_empty(attempt, self.census.of(id)))
        })
    }

    /// Once a second: ends children beyond their limits, and answers which trees are beyond theirs.
    pub(super) fn beyond_limits(
        &mut self,
        attempts: &mut Attempts,
        now: u64,
    ) -> Vec<(AttemptId, KillReason)> {
        if now < self.watch_limits_at || !attempts.living().any(Attempt::watches) {
            return Vec::new();
        }
        self.watch_limits_at = now + WATCH_LIMITS;
        if !self.counted {
            self.count(attempts);
        }
        let watched = attempts.living_mut().filter(|attempt| attempt.watches());
        let broken = watched.filter_map(|attempt| {
            let members = tree::members(attempt, self.census.of(attempt.id));
            attempt.watch_children(&members);
            Some((attempt.id, attempt.beyond_limit(&members)?))
        });
        broken.collect()
    }
}
