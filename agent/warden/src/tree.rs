//! Signals for an attempt's whole tree, and whether anything of it is left.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use farmhand_core::definition::Isolation;

use super::attempt::Attempt;
use farmhand_os::process::{self, Stat};
use farmhand_os::reap;
use farmhand_warden_client::death::cgroup;

/// Every process of the tree that can be seen. `census`: those found by descent.
pub(crate) fn members(attempt: &Attempt, census: &[Stat]) -> Vec<Stat> {
    let mut found: Vec<Stat> = census.to_vec();
    // Between fork and exec it is not in its cgroup yet.
    found.extend(process::stat(attempt.pid));
    if let Some(path) = attempt.cgroup() {
        let stats: Vec<Stat> = cgroup::processes(path)
            .into_iter()
            .filter_map(process::stat)
            .collect();
        // Listed again, so that none of these is a later process with a number that was in the list.
        let still = cgroup::processes(path);
        found.extend(stats.into_iter().filter(|s| still.contains(&s.pid)));
    }
    found.sort_by_key(|s| s.pid);
    found.dedup_by_key(|s| s.pid);
    found.retain(|s| !s.is_zombie());
    found
}

pub(crate) fn terminate(attempt: &Attempt, census: &[Stat]) {
    if attempt.request.isolation == Isolation::Pid && !attempt.lifecycle.main_ended() {
        // Process 1 of the namespace passes it on.
        let _ = Pid::from_raw(attempt.pid).map(|pid| kill_process(pid, Signal::TERM));
        return;
    }
    for stat in members(attempt, census) {
        let _ = process::signal(&stat, Signal::TERM);
        // A stopped process acts on nothing but SIGKILL until it is continued. Whether it is stopped cannot be
        // asked: a SIGSTOP may be on its way.
        let _ = process::signal(&stat, Signal::CONT);
    }
}

/// Everything in its cgroup, whatever that is: to look at a fork bomb takes time, and it goes on meanwhile.
pub(crate) fn kill_cgroup(attempt: &Attempt) {
    if let Some(path) = attempt.cgroup() {
        let _ = cgroup::kill(path);
    }
}

/// Everything else.
pub(crate) fn kill(attempt: &Attempt, census: &[Stat]) {
    // The main process is not reaped before the end, so its number is still its group's.
    if let Some(pid) = Pid::from_raw(attempt.pid) {
        let _ = kill_process_group(pid, Signal::KILL);
        if !reap::is_zombie(attempt.pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    for stat in census {
        let _ = process::signal(stat, Signal::KILL);
    }
}

/// Whether nothing of the tree is alive, its main process having ended.
pub(crate) fn is_empty(attempt: &Attempt, census: &[Stat]) -> bool {
    census.iter().all(|s| s.pid == attempt.pid) && attempt.cgroup().is_none_or(|c| !cgroup::populated(c))
}
