//! Ending every process of a tree that nobody owns any more.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::clock::{SECOND, boottime_ns};
use super::gone::Gone;
use super::paths::Paths;
use super::{census, cgroup};
use farmhand_os::process;
use farmhand_os::reap;

/// What still exists so long after SIGKILL cannot be ended by the kernel.
const GIVE_UP_AFTER: u64 = 30 * SECOND;
/// Rounds of stopping before killing: each finds only what was forked during the one before.
const STOP_ROUNDS: usize = 32;

fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// For the guard, whose children everything becomes when the warden dies: kills and reaps until there is no
/// child and the cgroup is empty. Answers with what could not be ended.
pub fn own_children(cgroup: Option<&Path>) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let give_up = boottime_ns() + GIVE_UP_AFTER;
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
        if boottime_ns() > give_up {
            let mut left: HashSet<i32> = process::descendants(own)
                .into_iter()
                .map(|(s, _)| s.pid)
                .collect();
            left.extend(cgroup.into_iter().flat_map(cgroup::processes));
            return left.into_iter().collect();
        }
        pause();
    }
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
/// name in the environment. Call it only when neither guard nor warden lives.
pub fn leftovers(paths: &Paths) -> io::Result<Gone> {
    let cgroup = std::fs::read_to_string(paths.cgroup_note())
        .ok()
        .map(PathBuf::from);
    let cgroup = cgroup.filter(|path| path.is_dir());
    let mut runs = paths.runs().into_os_string();
    runs.push("/");
    let runs = PathBuf::from(runs);
    let mut swept = HashSet::new();
    let give_up = boottime_ns() + GIVE_UP_AFTER;
    loop {
        let mut left: Vec<i32> = Vec::new();
        if let Some(cgroup) = &cgroup {
            left.extend(cgroup::processes(cgroup));
            cgroup::kill(cgroup)?;
        }
        for stat in census::marked(&runs) {
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
            return Ok(Gone::Empty {
                swept: swept.len() as u32,
            });
        }
        if boottime_ns() > give_up {
            return Ok(Gone::Unkillable { pids: left });
        }
        pause();
    }
}
