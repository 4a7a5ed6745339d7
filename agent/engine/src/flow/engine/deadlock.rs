//! Tasks that wait for each other's names at run time are noticed, and ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::{Engine, Killed};
use crate::flow::asleep::{Asleep, asleep};
use crate::flow::fifo::file_name;
use crate::flow::signals::signal_group;

/// After a start: shorter waits are none that anybody minds.
const FIRST: Duration = Duration::from_secs(1);
/// Between two looks, later.
const LONGEST: Duration = Duration::from_secs(30);
/// What looks like a deadlock is one if nothing of it has run when it is looked at again.
const AGAIN: Duration = Duration::from_millis(200);

/// When to look for deadlocks, and what was seen.
#[derive(Debug)]
pub(super) struct Looks {
    pub next: Instant,
    pause: Duration,
    seen: BTreeMap<i32, Asleep>,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self {
            next: Instant::now() + FIRST,
            pause: FIRST,
            seen: BTreeMap::new(),
        }
    }

    /// Something was started: the next look comes soon.
    pub(super) fn soon(&mut self) {
        self.next = self.next.min(Instant::now() + FIRST);
        self.pause = FIRST;
    }
}

impl Engine<'_> {
    /// By leader of their groups: tasks that come to an end by themselves.
    fn leaders(&self) -> BTreeMap<i32, &str> {
        let tasks = self.tasks;
        let ends = |r: &super::Running| r.killed.is_none() && tasks[r.task].extras.rounds.is_none();
        let leaders = self.running.iter().filter(|(_, r)| ends(r));
        leaders.map(|(pid, r)| (*pid, tasks[r.task].name())).collect()
    }

    /// When to call [`Self::look_for_deadlock`] again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        (!self.leaders().is_empty()).then_some(self.looks.next)
    }

    pub(super) fn look_for_deadlock(&mut self) {
        let now = Instant::now();
        if self.looks.next > now {
            return;
        }
        let seen = asleep(&self.tools.dir.deps(), &self.leaders());
        let before = std::mem::take(&mut self.looks.seen);
        let unchanged = seen.iter().filter(|(pid, a)| before.get(pid) == Some(a));
        let unchanged: BTreeMap<_, _> = unchanged.map(|(pid, a)| (*pid, a.clone())).collect();
        if let Some(deadlock) = self.deadlock(&unchanged) {
            self.end_all(&deadlock.running, &format!("deadlock: {}", deadlock.chain));
        }
        let suspected = self.deadlock(&seen).is_some();
        self.looks.pause = (self.looks.pause * 2).min(LONGEST);
        self.looks.next = now + if suspected { AGAIN } else { self.looks.pause };
        self.looks.seen = seen;
    }

    fn deadlock(&self, asleep: &BTreeMap<i32, Asleep>) -> Option<farmhand_core::flow::Deadlock> {
        if asleep.is_empty() {
            return None;
        }
        let names = self.graph.names().iter();
        let nodes: BTreeMap<OsString, usize> = names.map(|(name, node)| (file_name(name), *node)).collect();
        let known = |files: &BTreeSet<OsString>| files.iter().map(|file| nodes.get(file).copied()).collect();
        let sleeper = |(pid, asleep): (&i32, &Asleep)| {
            let running = self.running.get(pid).filter(|r| r.killed.is_none())?;
            let waited_for: Option<Vec<usize>> = known(&asleep.files);
            Some((running.task, waited_for?))
        };
        self.course.deadlock(&asleep.iter().filter_map(sleeper).collect())
    }

    fn end_all(&mut self, tasks: &[usize], reason: &str) {
        let deadline = Instant::now() + self.options.grace;
        for (pid, running) in self.running.iter_mut().filter(|(_, r)| tasks.contains(&r.task)) {
            running.killed = Some(Killed::Deadlock);
            running.deadline = Some(deadline);
            signal_group(*pid, libc::SIGTERM);
        }
        for task in tasks {
            self.record(*task).reason = Some(reason.to_owned());
        }
    }
}
