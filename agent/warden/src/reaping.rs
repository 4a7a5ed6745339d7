//! Ended processes: main ones, whose attempts end with their trees, and orphans.

use super::attempt::Attempt;
use super::lifecycle::Happened;
use super::tree;
use super::warden::Warden;
use farmhand_os::clock::boottime_ns;
use farmhand_os::reap;
use farmhand_warden_client::wire::AttemptId;

/// Orphans reaped in one turn of the loop. A job can make more of them as fast as they go, for as long as it likes.
const AT_ONCE: usize = 256;

impl Warden {
    /// The main process ended: was it the last one?
    pub(super) fn look_for_empty(&mut self, id: AttemptId) {
        self.take_census();
        let Some(attempt) = self.living.get_mut(&id) else {
            return;
        };
        let census = self.census.of(id);
        if tree::is_empty(attempt, census) {
            let act = attempt.lifecycle.next(boottime_ns(), Happened::TreeEmpty);
            self.act(id, act);
        }
    }

    /// Finds main processes that ended, and reaps everything else; what is too much for one turn, in the next.
    pub(super) fn reap(&mut self) {
        self.zombies_left = false;
        for _ in 0..AT_ONCE {
            let reap::Peek::Zombie(pid) = reap::peek() else {
                return;
            };
            match self.by_pid.get(&pid) {
                None => {
                    reap::one(pid);
                }
                Some(id) => {
                    self.main_ended(*id);
                    if self.by_pid.contains_key(&pid) {
                        return self.reap_around_zombies();
                    }
                }
            }
        }
        self.zombies_left = true;
    }

    /// Some main process stays a zombie until its tree is empty, and is all that a look at any child shows.
    fn reap_around_zombies(&mut self) {
        for pid in farmhand_os::process::own_children() {
            match self.by_pid.get(&pid) {
                None => {
                    reap::one(pid);
                }
                Some(id) if reap::is_zombie(pid) => self.main_ended(*id),
                Some(_) => {}
            }
        }
    }

    fn main_ended(&mut self, id: AttemptId) {
        let empty = self.tree_is_empty(id);
        let Some(attempt) = self.living.get_mut(&id) else {
            return;
        };
        if attempt.lifecycle.main_ended() {
            return;
        }
        let mut act = attempt.lifecycle.next(boottime_ns(), Happened::MainEnded);
        if empty {
            act = attempt.lifecycle.next(boottime_ns(), Happened::TreeEmpty);
        } else {
            attempt.leftovers = tree::members(attempt, self.census.of(id)).len() as u32;
        }
        self.act(id, act);
    }

    /// Once in a turn is enough for signals, which are repeated where it matters.
    pub(super) fn take_census(&mut self) {
        if !self.census_taken {
            self.take_fresh_census();
        }
    }

    /// With cgroups, only orphans need to be attributed; without, everything.
    fn take_fresh_census(&mut self) {
        self.census_taken = true;
        let mut tops = farmhand_os::process::own_children();
        if self.cgroup.is_some() {
            tops.retain(|pid| !self.by_pid.contains_key(pid));
        }
        if tops.is_empty() {
            return self.census.clear();
        }
        let members: Vec<_> = self.living.values().map(Attempt::member).collect();
        self.census.take(tops, &members, &self.paths.runs());
        for stat in &self.census.left_behind {
            let _ = farmhand_os::process::signal(stat, rustix::process::Signal::KILL);
        }
    }

    /// Whether nothing is left of an attempt whose main process has ended.
    fn tree_is_empty(&mut self, id: AttemptId) -> bool {
        // Walking a tree is no snapshot: without a cgroup, a process that forks and exits meanwhile can be
        // missed once. What is missed twice is found as left behind.
        let looks = if self.cgroup.is_some() { 1 } else { 2 };
        (0..looks).all(|_| {
            self.take_fresh_census();
            self.living
                .get(&id)
                .is_some_and(|attempt| tree::is_empty(attempt, self.census.of(id)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::Captive;
    use super::*;
    use farmhand_os::process::own_children;

    #[test]
    fn a_flood_of_orphans_is_reaped_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let mut captive = Captive::new(dir.path()).unwrap();
        let orphans: Vec<i32> = (0..AT_ONCE + 10)
            // SAFETY: the child ends at once.
            .map(|_| match unsafe { libc::fork() } {
                0 => unsafe { libc::_exit(0) },
                pid => pid,
            })
            .collect();
        while !orphans.iter().all(|pid| reap::is_zombie(*pid)) {
            std::thread::yield_now();
        }
        captive.warden.reap();
        assert_eq!((own_children().len(), captive.warden.zombies_left), (10, true));
        captive.warden.reap();
        assert_eq!((own_children().len(), captive.warden.zombies_left), (0, false));
    }
}
