//! Which task may start, and what its end is followed by.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::continuous::after_round;
use crate::flow::task::Task;
use crate::graph::{Graph, Node};
use crate::retry::delay;
use crate::run::{AttemptEnd, Outcome};

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum End {
    /// It did what it should.
    Succeeded,
    /// It ended in another way.
    Failed {
        /// As a shell says it: 128 + the signal for one that a signal ended.
        exit_code: i32,
    },
    /// It was ended because it took too long.
    TimedOut,
    /// Ended by us, or never begun because the flow was ended.
    Cancelled,
    /// What it requires did not succeed.
    Skipped,
    /// Not to be executed at all.
    LeftOut,
    /// Succeeded in an earlier attempt of the flow.
    Done,
}

impl End {
    /// Whether what requires it may run.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Succeeded | Self::LeftOut | Self::Done)
    }
}

impl From<&End> for AttemptEnd {
    fn from(end: &End) -> Self {
        match end {
            End::Failed { exit_code } => Self::Exited(*exit_code),
            End::TimedOut => Self::TimedOut,
            End::Cancelled | End::Skipped => Self::Cancelled,
            End::Succeeded | End::LeftOut | End::Done => Self::Exited(0),
        }
    }
}

/// A task that ended is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// The pause before the next try.
    pub after: Duration,
    /// Whether what ended was a failure.
    pub failed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Ready,
    Running,
    /// Until another try is due.
    Paused,
    Ended(End),
}

/// Where a flow stands.
#[derive(Debug)]
pub struct Course<'f> {
    pub(super) tasks: &'f [Task],
    pub(super) graph: &'f Graph,
    pub(super) states: Vec<State>,
    /// By node: what it still waits for.
    pub(super) waits: Vec<u32>,
    /// By node: one that it requires and that did not succeed.
    pub(super) blame: Vec<Option<usize>>,
    /// Edges whose beginning was marked before its end.
    pub(super) released: BTreeSet<u32>,
    /// Longest chains first.
    pub(super) ready: BTreeSet<(Reverse<usize>, usize)>,
    /// Those that wait for another try, the next one first.
    pub(super) paused: BTreeSet<(Duration, usize)>,
    pub(super) ranks: Vec<usize>,
    pub(super) tries: Vec<u32>,
    /// Rounds that failed in a row, of tasks that have rounds.
    pub(super) failures: BTreeMap<usize, u32>,
    pub(super) held: BTreeMap<&'f str, usize>,
    /// Places of pools, and how many of them are taken.
    pub(super) pools: BTreeMap<String, u32>,
    pub(super) used: BTreeMap<&'f str, u32>,
    pub(super) running: usize,
    pub(super) limit: usize,
    pub(super) left: usize,
    /// By task: succeeded in an earlier attempt.
    pub(super) done: Vec<bool>,
    /// Nodes that ended and that nobody has been told of yet.
    pub(super) news: Vec<usize>,
    pub(super) cancelled: bool,
}

impl<'f> Course<'f> {
    /// At most `limit` tasks at a time. `done` tells the tasks that an earlier attempt finished. Nothing
    /// when the graph has a cycle.
    pub fn new(tasks: &'f [Task], graph: &'f Graph, limit: usize, done: &BTreeSet<String>) -> Option<Self> {
        let nodes = graph.nodes().len();
        let mut course = Self {
            tasks,
            graph,
            states: vec![State::Waiting; nodes],
            waits: (0..nodes)
                .map(|n| u32::try_from(graph.into(n).count()).unwrap_or(u32::MAX))
                .collect(),
            blame: vec![None; nodes],
            released: BTreeSet::new(),
            ready: BTreeSet::new(),
            paused: BTreeSet::new(),
            ranks: graph.ranks()?,
            tries: vec![0; tasks.len()],
            failures: BTreeMap::new(),
            held: BTreeMap::new(),
            pools: BTreeMap::new(),
            used: BTreeMap::new(),
            running: 0,
            limit: limit.max(1),
            left: nodes,
            done: tasks
                .iter()
                .map(|t| done.contains(t.name()) && !t.always_run)
                .collect(),
            news: Vec::new(),
            cancelled: false,
        };
        for node in 0..nodes {
            if course.waits[node] == 0 && course.states[node] == State::Waiting {
                course.arrive(node);
            }
        }
        Some(course)
    }

    /// So many tasks of each pool run at once; a pool that is not named here bounds nothing.
    pub fn with_pools(mut self, pools: &BTreeMap<String, u32>) -> Self {
        self.pools.clone_from(pools);
        self
    }

    /// Whether everything has ended.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// How many tasks run now.
    pub fn running(&self) -> usize {
        self.running
    }

    /// How a task or a mark ended, if it has.
    pub fn end(&self, node: usize) -> Option<&End> {
        match &self.states[node] {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Starts of this task so far.
    pub fn tries(&self, task: usize) -> u32 {
        self.tries[task]
    }

    /// Nodes that ended since the last call, in the order of their ends.
    pub fn news(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.news)
    }

    /// The next task that is to start now, if `admit` agrees. It counts as running from here on.
    pub fn start(&mut self, mut admit: impl FnMut(usize) -> bool) -> Option<usize> {
        if self.running >= self.limit {
            return None;
        }
        let free = |(_, task): &&(_, usize)| self.is_free(*task) && admit(*task);
        let found = self.ready.iter().find(free).copied()?;
        self.ready.remove(&found);
        let (_, task) = found;
        self.states[task] = State::Running;
        self.running += 1;
        self.tries[task] = self.tries[task].saturating_add(1);
        for lock in &self.tasks[task].extras.locks {
            self.held.insert(lock, task);
        }
        if let Some(pool) = &self.tasks[task].extras.pool {
            *self.used.entry(pool).or_default() += 1;
        }
        Some(task)
    }

    /// All of its locks or none: nobody waits while it holds something.
    pub(super) fn is_free(&self, task: usize) -> bool {
        let locks = &self.tasks[task].extras.locks;
        let running = |other: &usize| self.states[*other] == State::Running;
        let pool = self.tasks[task].extras.pool.as_ref();
        !pool.is_some_and(|pool| self.is_full(pool))
            && !locks.iter().any(|l| self.held.contains_key(l.as_str()))
            && !self.graph.conflicts(task).iter().any(running)
    }

    pub(super) fn is_full(&self, pool: &str) -> bool {
        let used = self.used.get(pool).copied().unwrap_or(0);
        self.pools.get(pool).is_some_and(|size| used >= *size)
    }

    /// A running task ended. Returns whether it is run again; `random` is uniform over all of `u64`.
    pub fn ended(&mut self, task: usize, end: End, now: Duration, random: u64) -> Option<Again> {
        debug_assert_eq!(self.states[task], State::Running);
        self.running -= 1;
        for lock in &self.tasks[task].extras.locks {
            self.held.remove(lock.as_str());
        }
        let pool = self.tasks[task].extras.pool.as_deref();
        if let Some(used) = pool.and_then(|pool| self.used.get_mut(pool)) {
            *used -= 1;
        }
        let Some(again) = self.again(task, &end, random) else {
            self.settle(task, end);
            return None;
        };
        self.states[task] = State::Paused;
        self.paused.insert((now + again.after, task));
        Some(again)
    }

    fn again(&mut self, task: usize, end: &End, random: u64) -> Option<Again> {
        let extras = &self.tasks[task].extras;
        if self.cancelled {
            return None;
        }
        if let Some(rounds) = &extras.rounds {
            let failures = self.failures.entry(task).or_default();
            let round = after_round(end.into(), rounds, *failures, false, random);
            let failed = round.outcome != Outcome::Succeeded;
            *failures = if failed { failures.saturating_add(1) } else { 0 };
            return Some(Again {
                after: round.again,
                failed,
            });
        }
        let again = matches!(end, End::Failed { .. } | End::TimedOut) && self.tries[task] <= extras.retry.max;
        again.then(|| Again {
            after: delay(&extras.retry, self.tries[task], random),
            failed: true,
        })
    }

    /// Makes paused tasks ready whose time has come. Returns the next such time.
    pub fn wake(&mut self, now: Duration) -> Option<Duration> {
        while let Some(&(until, task)) = self.paused.first() {
            if until > now {
                return Some(until);
            }
            self.paused.pop_first();
            self.enqueue(task);
        }
        None
    }

    /// When the next try is due, which may have passed. What [`Course::wake`] makes ready has to be started.
    pub fn next_try(&self) -> Option<Duration> {
        self.paused.first().map(|(until, _)| *until)
    }

    /// A running task says that what it stands for is there, while it goes on: what waits for `name` does
    /// not wait for it any longer. Whether the name is one of its own.
    pub fn mark(&mut self, task: usize, name: &str) -> bool {
        let Some(&target) = self.graph.names().get(name) else {
            return false;
        };
        if self.states[task] != State::Running {
            return false;
        }
        if target == task {
            self.release(task, |_| true);
            self.news.push(task);
            return true;
        }
        let provides = self.graph.into(target).any(|e| e.from == task);
        if provides {
            self.release(task, |to| to == target);
        }
        provides
    }

    fn release(&mut self, from: usize, which: impl Fn(usize) -> bool) {
        for &index in self.graph.edges_out(from) {
            let to = self.graph.edges()[index as usize].to;
            if which(to) && self.released.insert(index) {
                self.let_go(to);
            }
        }
    }

    /// Nothing starts any more; what waits ends as cancelled. Returns what still runs.
    pub fn cancel(&mut self) -> Vec<usize> {
        self.cancelled = true;
        self.ready.clear();
        self.paused.clear();
        for node in 0..self.states.len() {
            if !matches!(self.states[node], State::Running | State::Ended(_)) {
                self.states[node] = State::Ended(End::Cancelled);
                self.left -= 1;
                self.news.push(node);
            }
        }
        (0..self.tasks.len())
            .filter(|t| self.states[*t] == State::Running)
            .collect()
    }

    /// From a task that was skipped to the one that failed: each is to blame for the one before it.
    pub fn chain_of_blame(&self, task: usize) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut next = self.blame[task];
        while let Some(node) = next {
            if matches!(self.graph.nodes()[node], Node::Task(_)) {
                chain.push(node);
            }
            next = self.blame[node];
        }
        chain
    }
}
