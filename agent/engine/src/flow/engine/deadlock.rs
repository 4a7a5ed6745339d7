//! Tasks that wait for each other's names at run time are noticed, and ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::state::{FlowEngine, Killed, Running};
use crate::flow::fifo::file_name;
use crate::flow::waiting_tasks::{Asleep, asleep};

/// Between two looks, later.
const LONGEST: Duration = Duration::from_secs(30);
/// What looks like a deadlock is one if nothing of it has run when it is looked at again.
const AGAIN: Duration = Duration::from_millis(200);

impl FlowEngine<'_> {
    /// Whether it comes to an end by itself, and is not being ended.
    fn may_sleep(&self, running: &Running) -> bool {
        running.limit.over.is_none() && self.tasks[running.task].extras.rounds.is_none()
    }

    /// When to call [`Self::look_for_deadlock`] again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let any = self.running.values().any(|r| self.may_sleep(r));
        any.then_some(self.looks.next)
    }

    pub(super) fn look_for_deadlock(&mut self) {
        let now = Instant::now();
        if self.looks.next > now {
            return;
        }
        let running = self.running.iter().filter(|(_, r)| self.may_sleep(r));
        let leaders = running.map(|(pid, r)| (*pid, self.tasks[r.task].name()));
        let seen = asleep(&self.tools.dir.deps(), &leaders.collect());
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
            let running = self.running.get(pid).filter(|r| r.limit.over.is_none())?;
            let waited_for: Option<Vec<usize>> = known(&asleep.files);
            Some((running.task, waited_for?))
        };
        self.course.deadlock(&asleep.iter().filter_map(sleeper).collect())
    }

    fn end_all(&mut self, tasks: &[usize], reason: &str) {
        for (pid, running) in self.running.iter_mut().filter(|(_, r)| tasks.contains(&r.task)) {
            let grace = self.options.grace;
            running.limit.end(*pid, libc::SIGTERM, Killed::Deadlock, grace);
        }
        for task in tasks {
            self.record(*task).reason = Some(reason.to_owned());
        }
    }
}
