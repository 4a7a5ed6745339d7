//! Ending the farm within ten seconds, whatever became of its agents.
//!
//! The agents end their own jobs on SIGQUIT. What is left after that, of agents that were killed for instance,
//! descends from this process, which adopts orphans, or belongs to an agent that was started by hand and names
//! the farm's directory in its command line.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::signals::{Event, Signals};
use super::{kin, orphans};
use farmhand_os::process::{self, Stat};

/// For the agents: they end their jobs and close their sessions.
const GENTLE: Duration = Duration::from_millis(3500);
/// For SIGKILL.
const HARSH: Duration = Duration::from_millis(2500);
const LOOK: Duration = Duration::from_millis(20);

/// Ends every process of the farm in `dir` but its database, within six seconds. Returns what is left, which
/// then hangs in the kernel.
pub(super) fn agents(dir: &Path, signals: &Signals, database: i32) -> Vec<i32> {
    let farm = || members(dir, database);
    for agent in farm().iter().filter(|member| kin::is(member.pid, "agent", dir)) {
        let _ = process::signal(agent, Signal::QUIT);
    }
    if !wait_for(farm, signals, GENTLE, None) {
        wait_for(farm, signals, HARSH, Some(Signal::KILL));
    }
    farm().into_iter().map(|member| member.pid).collect()
}

/// A signal that comes meanwhile ends the patience.
fn wait_for(
    farm: impl Fn() -> Vec<Stat>,
    signals: &Signals,
    patience: Duration,
    signal: Option<Signal>,
) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = farm();
        if left.is_empty() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        for member in left {
            if let Some(signal) = signal {
                let _ = process::signal(&member, signal);
            }
        }
        if signals.wait(LOOK) == Event::End && signal.is_none() {
            return false;
        }
    }
}

/// Every live process of the farm: zombies of ours are reaped on the way.
fn members(dir: &Path, database: i32) -> Vec<Stat> {
    let own = std::process::id().cast_signed();
    orphans::reap(&[database]);
    let kept: HashSet<i32> = std::iter::once(database).chain(below(database)).collect();
    let strays = process::all().into_iter().map(|stat| stat.pid);
    let strays = strays.filter(|pid| *pid != own && kin::WORDS.iter().any(|word| kin::is(*pid, word, dir)));
    let roots: Vec<i32> = std::iter::once(own).chain(strays).collect();
    let mut found: HashSet<i32> = roots.iter().copied().flat_map(below).collect();
    found.extend(roots);
    found.retain(|pid| *pid != own && !kept.contains(pid));
    found
        .into_iter()
        .filter_map(process::stat)
        .filter(|stat| !stat.is_zombie())
        .collect()
}

fn below(root: i32) -> Vec<i32> {
    process::descendants(root)
        .into_iter()
        .map(|(stat, _)| stat.pid)
        .collect()
}
