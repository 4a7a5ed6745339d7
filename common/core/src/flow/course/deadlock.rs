//! Tasks that wait for each other while they run: what no plan can tell, because scripts wait for names as they please.

use std::collections::BTreeMap;

use super::steps::{Course, End, State};
use crate::graph::Node;

/// Tasks none of which can come to its end before the next one has, in a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    pub running: Vec<usize>,
    /// `a waits for b, b waits for a`.
    pub chain: String,
}

/// What a node cannot do without another one.
type Blocked = (usize, &'static str);

impl Course<'_> {
    /// A deadlock among the running tasks, if there is one. `asleep` has those that sleep, each with the nodes of which one has
    /// to end before it goes on. All others may end, and so may what is to run again.
    pub fn deadlock(&self, asleep: &BTreeMap<usize, Vec<usize>>) -> Option<Deadlock> {
        let order = self.graph.order()?;
        let mut ends = vec![false; self.states.len()];
        // In the order of the graph all is said after one round, but for what the sleepers wait for.
        loop {
            let mut more = false;
            for &node in order.nodes() {
                if !ends[node] && self.blocked(node, asleep, &ends).is_none() {
                    ends[node] = true;
                    more = true;
                }
            }
            if !more {
                break;
            }
        }
        let first = *asleep.keys().find(|task| !ends[**task])?;
        let mut path: Vec<(usize, usize, &str)> = Vec::new();
        let mut node = first;
        while !path.iter().any(|(from, ..)| *from == node) {
            let (next, why) = self.blocked(node, asleep, &ends)?;
            path.push((node, next, why));
            node = next;
        }
        let begin = path.iter().position(|(from, ..)| *from == node)?;
        let mut circle = path.split_off(begin);
        let sleeper = |(from, ..): &(usize, usize, &str)| asleep.contains_key(from);
        let least = circle.iter().copied().filter(sleeper).min()?;
        let at = circle.iter().position(|step| *step == least)?;
        circle.rotate_left(at);
        Some(Deadlock {
            running: circle.iter().filter(|s| sleeper(s)).map(|s| s.0).collect(),
            chain: self.chain(&circle),
        })
    }

    /// Why a node cannot end; nothing when it can, or may.
    fn blocked(&self, node: usize, asleep: &BTreeMap<usize, Vec<usize>>, ends: &[bool]) -> Option<Blocked> {
        let one_of = |nodes: &[usize]| {
            let any = nodes.iter().any(|n| ends[*n]);
            nodes.first().filter(|_| !any).map(|n| (*n, ""))
        };
        match &self.states[node] {
            State::Ended(_) | State::Paused => None,
            State::Running => one_of(asleep.get(&node)?),
            State::Ready => self.kept_out(node, ends),
            State::Waiting => {
                let edges = self.graph.edges_into(node).iter();
                let from = edges.filter(|e| !self.released.contains(e));
                let mut from = from.map(|e| self.graph.edges()[*e as usize].from);
                if self.is_any(node) {
                    let good = |n: &usize| self.end(*n).is_none_or(End::is_good);
                    return one_of(&from.filter(good).collect::<Vec<_>>());
                }
                from.find(|from| !ends[*from]).map(|from| (from, ""))
            }
        }
    }

    /// By tasks that run and cannot end.
    fn kept_out(&self, task: usize, ends: &[bool]) -> Option<Blocked> {
        let stuck = |other: &usize| self.states[*other] == State::Running && !ends[*other];
        let all = 0..self.tasks.len();
        let running = all.clone().filter(|t| self.states[*t] == State::Running);
        if self.running >= self.limit && running.clone().all(|t| stuck(&t)) {
            return running.clone().next().map(|t| (t, " to leave a place"));
        }
        let pool = self.tasks[task].extras.pool.as_ref();
        let mut members = running.filter(|t| pool.is_some() && self.tasks[*t].extras.pool.as_ref() == pool);
        let full = pool.is_some_and(|pool| self.is_full(pool));
        if full && members.clone().all(|t| stuck(&t)) {
            return members.next().map(|t| (t, " to leave the pool"));
        }
        let locks = self.tasks[task].extras.locks.iter();
        let mut holders = locks.filter_map(|lock| self.held.get(lock.as_str()).copied());
        let holder = holders.find(stuck).map(|t| (t, " to release a lock"));
        let conflict = || self.graph.conflicts(task).iter().copied().find(stuck);
        holder.or_else(|| conflict().map(|t| (t, ", with which it conflicts")))
    }

    /// Marks on the way are told with the task behind them.
    fn chain(&self, circle: &[(usize, usize, &str)]) -> String {
        let task = |node: usize| matches!(self.graph.nodes()[node], Node::Task(_));
        let mut said = String::new();
        let mut mark = None;
        for (from, to, why) in circle {
            if task(*from) {
                let comma = if said.is_empty() { "" } else { ", " };
                said += &format!("{comma}{} waits for ", self.graph.label(*from));
            }
            if !task(*to) {
                mark = mark.or(Some(*to));
                continue;
            }
            said += self.graph.label(*to);
            if let Some(mark) = mark.take() {
                said += &format!(" ({})", self.graph.label(mark));
            }
            said += why;
        }
        said
    }
}
