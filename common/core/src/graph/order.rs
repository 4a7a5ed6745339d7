//! An order that violates no edge, levels, and the longest chain.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::build::{Graph, Node};

/// Every node after all it comes after; equals by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    nodes: Vec<usize>,
    /// By node: the number of tasks in the longest chain that ends right before it.
    levels: Vec<usize>,
}

/// The chain of tasks that takes longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalPath {
    /// One after the other, the first first.
    pub tasks: Vec<usize>,
    pub length: Duration,
}

impl Graph {
    /// Nothing when there is a cycle.
    pub fn order(&self) -> Option<Order> {
        let mut waits: Vec<usize> = self.into.lengths().collect();
        let mut levels = vec![0; self.nodes.len()];
        let ready = (0..waits.len()).filter(|n| waits[*n] == 0).map(Reverse);
        let mut ready: BinaryHeap<Reverse<usize>> = ready.collect();
        let mut nodes = Vec::with_capacity(waits.len());
        while let Some(Reverse(node)) = ready.pop() {
            nodes.push(node);
            let after = levels[node] + usize::from(self.is_task(node));
            for edge in self.out(node) {
                levels[edge.to] = levels[edge.to].max(after);
                waits[edge.to] -= 1;
                if waits[edge.to] == 0 {
                    ready.push(Reverse(edge.to));
                }
            }
        }
        (nodes.len() == self.nodes.len()).then_some(Order { nodes, levels })
    }

    /// By node: the number of tasks in the longest chain from there to the end. Nothing when there is a cycle.
    pub fn ranks(&self) -> Option<Vec<usize>> {
        let order = self.order()?;
        let mut ranks = vec![0; self.nodes.len()];
        for &node in order.nodes.iter().rev() {
            let after = self.out(node).map(|e| ranks[e.to]).max().unwrap_or(0);
            ranks[node] = after + usize::from(self.is_task(node));
        }
        Some(ranks)
    }

    /// The chain with the largest sum of `duration(task)`.
    pub fn critical_path(&self, order: &Order, duration: impl Fn(usize) -> Duration) -> CriticalPath {
        let mut ends = vec![Duration::ZERO; self.nodes.len()];
        let mut chosen = vec![None; self.nodes.len()];
        let mut last: Option<usize> = None;
        for &node in &order.nodes {
            for edge in self.into(node) {
                if chosen[node].is_none() || ends[edge.from] > ends[node] {
                    ends[node] = ends[edge.from];
                    chosen[node] = Some(edge.from);
                }
            }
            if self.is_task(node) {
                ends[node] += duration(node);
            }
            if last.is_none_or(|l| ends[node] > ends[l]) {
                last = Some(node);
            }
        }
        let length = last.map_or(Duration::ZERO, |l| ends[l]);
        let mut tasks = Vec::new();
        while let Some(node) = last {
            if self.is_task(node) {
                tasks.push(node);
            }
            last = chosen[node];
        }
        tasks.reverse();
        CriticalPath { tasks, length }
    }

    fn is_task(&self, node: usize) -> bool {
        matches!(self.nodes[node], Node::Task(_))
    }
}

impl Order {
    /// Marks too.
    pub fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    /// 0 for what waits for nothing.
    pub fn level(&self, node: usize) -> usize {
        self.levels[node]
    }
}
