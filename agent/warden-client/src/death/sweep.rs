//! Ending every process of a tree that nobody owns any more.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::{census, cgroup};
use crate::helper::Gone;
use crate::paths::{Paths, SECRETS};
use farmhand_os::clock::{SECOND, boottime_ns};
use farmhand_os::{process, reap, removal};

/// What still exists so long after SIGKILL, and has nothing left to do but end, hangs in a system call.
const HANGS_AFTER: u64 = 5 * SECOND;
/// What still exists so long after SIGKILL cannot be ended by us.
pub const GIVE_UP_AFTER: u64 = 10 * SECOND;
/// Rounds of stopping before killing: each finds only what was forked during the one before.
const STOP_ROUNDS: usize = 32;

fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// For the reaper, whose children everything becomes when the warden dies: kills and reaps until there is no
/// child and the cgroup is empty. Answers with what could not be ended.
pub fn own_children(cgroup: Option<&Path>) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let since = boottime_ns();
    loop {
        // First, because it is atomic with respect to fork.
        if let Some(cgroup) = cgroup {
            let _ = cgroup::kill(cgroup);
        }
        kill_below(own);
        while reap::any().is_some() {}
        let childless = reap::peek() == reap::Peek::Childless;
        let empty = cgroup.is_none_or(|c| !cgroup::populated(c));
        if childless && empty {
            return Vec::new();
        }
        if boottime_ns() > since + HANGS_AFTER {
            let mut left: HashSet<i32> = process::descendants(own)
                .into_iter()
                .filter(|(stat, _)| !stat.is_zombie())
                .map(|(stat, _)| stat.pid)
                .collect();
            left.extend(cgroup.into_iter().flat_map(cgroup::processes));
            let left = Vec::from_iter(left);
            if is_hopeless(since, &left) {
                return left;
            }
        }
        pause();
    }
}

/// Whether waiting for the end of these, sent SIGKILL since then, is of no use.
fn is_hopeless(since: u64, left: &[i32]) -> bool {
    let waited = boottime_ns().saturating_sub(since);
    waited > GIVE_UP_AFTER || waited > HANGS_AFTER && left.iter().all(|pid| process::is_ending(*pid))
}

/// Stops everything below `root` before killing it, so that a fork bomb cannot outrun the killing.
fn kill_below(root: i32) {
    let mut stopped = HashSet::new();
    for _ in 0..STOP_ROUNDS {
        let mut news = 0;
        for (stat, _) in process::descendants(root) {
            if !stat.is_zombie() && stopped.insert((stat.pid, stat.start)) {
                // EPERM: a setuid child, when we are not root. Its cgroup is all that can end it.
                let _ = process::signal(&stat, Signal::STOP);
                news += 1;
            }
        }
        if news == 0 {
            break;
        }
    }
    for (stat, _) in process::descendants(root) {
        let _ = process::signal(&stat, Signal::KILL);
    }
}

/// Ends whatever a dead warden's attempts left behind, found by their cgroups and by their run directory's
/// name in the environment. Call it only when neither reaper nor warden lives.
pub fn leftovers(paths: &Paths) -> io::Result<Gone> {
    let cgroup = std::fs::read_to_string(paths.cgroup_note())
        .ok()
        .map(PathBuf::from);
    let cgroup = cgroup.filter(|path| path.is_dir());
    let mut swept = HashSet::new();
    let since = boottime_ns();
    loop {
        let mut left: Vec<i32> = Vec::new();
        if let Some(cgroup) = &cgroup {
            left.extend(cgroup::processes(cgroup));
            cgroup::kill(cgroup)?;
        }
        for stat in census::marked(&paths.runs()) {
            left.push(stat.pid);
            // EPERM: a setuid child, when we are not root. It is told of as unkillable.
            let _ = process::signal(&stat, Signal::KILL);
        }
        swept.extend(left.iter().copied());
        let empty = cgroup.as_deref().is_none_or(|c| !cgroup::populated(c));
        if left.is_empty() && empty {
            if let Some(cgroup) = &cgroup {
                // Whatever keeps it is found by the next sweep.
                let _ = cgroup::remove_soon(cgroup);
            }
            secrets(paths);
            return Ok(Gone::Empty {
                swept: swept.len() as u32,
            });
        }
        if is_hopeless(since, &left) {
            return Ok(Gone::Unkillable { pids: left });
        }
        pause();
    }
}

/// Removes the secrets of attempts whose warden is dead. The rest of their directories waits for an agent, which may not come
/// for long.
pub fn secrets(paths: &Paths) {
    for id in paths.attempts_on_disk().unwrap_or_default() {
        let _ = removal::remove(&paths.attempt_dir(id).join(SECRETS), removal::BRIEFLY);
    }
}
