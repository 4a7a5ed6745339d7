//! What the end of a node means for those that waited for it.

use std::cmp::Reverse;

use super::steps::{Course, End, State};
use crate::graph::{Edge, Node};

impl Course<'_> {
    /// All that a node waited for has ended: it becomes ready, or ends without being executed.
    pub(super) fn arrive(&mut self, node: usize) {
        match self.end_at_once(node) {
            Some(end) => self.settle(node, end),
            None => self.enqueue(node),
        }
    }

    fn end_at_once(&self, node: usize) -> Option<End> {
        match self.graph.nodes()[node] {
            // What came before it may run again, and what comes after it still comes after that.
            Node::Task(task) if self.done[task] => Some(End::Done),
            _ if self.blame[node].is_some() => Some(End::Skipped),
            Node::Task(task) => self.tasks[task].left_out.is_some().then_some(End::LeftOut),
            Node::End(_) if self.is_left_out(node) => Some(End::LeftOut),
            Node::Begin(_) | Node::End(_) | Node::Any(_) => Some(End::Succeeded),
        }
    }

    fn is_left_out(&self, mark: usize) -> bool {
        let left_out = |e: &Edge| self.end(e.from) == Some(&End::LeftOut);
        self.graph.into(mark).all(left_out)
    }

    pub(super) fn enqueue(&mut self, task: usize) {
        self.states[task] = State::Ready;
        self.ready.insert((Reverse(self.ranks[task]), task));
    }

    /// A node has ended; so have all marks and skipped tasks that waited for nothing else. Without recursion:
    /// a chain of skipped tasks may be long.
    pub(super) fn settle(&mut self, node: usize, end: End) {
        let mut queue = vec![(node, end)];
        while let Some((node, end)) = queue.pop() {
            let left_out = end == End::LeftOut;
            let good = end.is_good();
            self.states[node] = State::Ended(end);
            self.left -= 1;
            self.news.push(node);
            for &index in self.graph.edges_out(node) {
                if self.released.contains(&index) {
                    continue;
                }
                let edge = &self.graph.edges()[index as usize];
                let to = edge.to;
                if !good && self.blame[to].is_none() && (edge.hard || self.is_any(to)) {
                    self.blame[to] = Some(node);
                }
                if !self.count_down(to, good && !left_out) {
                    continue;
                }
                match self.end_at_once(to) {
                    Some(end) => queue.push((to, end)),
                    None => self.enqueue(to),
                }
            }
        }
    }

    pub(super) fn let_go(&mut self, node: usize) {
        if self.count_down(node, true) {
            self.arrive(node);
        }
    }

    pub(super) fn is_any(&self, node: usize) -> bool {
        matches!(self.graph.nodes()[node], Node::Any(_))
    }

    /// One thing less to wait for; of alternatives the first that has succeeded is the last. Whether it waits for nothing any more.
    fn count_down(&mut self, node: usize, succeeded: bool) -> bool {
        if self.waits[node] == 0 || self.states[node] != State::Waiting {
            return false;
        }
        if succeeded && self.is_any(node) {
            self.waits[node] = 1;
            self.blame[node] = None;
        }
        self.waits[node] -= 1;
        self.waits[node] == 0
    }
}
