//! Cycles, and the lines that make them.

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

use super::build::{Edge, Graph, Node};
use super::members::Place;

/// More than anybody fixes in one sitting.
const MAX_CYCLES: usize = 100;

/// A cycle: each step comes before the next, the last before the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cycle {
    /// Each leads to the next, and the last to the first.
    pub steps: Vec<Step>,
}

/// `from` comes before `to`, because of the line at `at`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// This comes before the other.
    pub from: String,
    pub to: String,
    #[serde(flatten)]
    pub at: Place,
}

impl Cycle {
    /// Names of the tasks, each once.
    pub fn tasks(&self, graph: &Graph) -> Vec<String> {
        let tasks = |name: &&Step| graph.labels.iter().any(|l| **l == *name.from);
        let names = self.steps.iter().filter(tasks);
        names.map(|s| s.from.clone()).collect()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} before {} ({})", self.from, self.to, self.at)
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let end = if index + 1 < self.steps.len() { "\n" } else { "" };
            write!(f, "{step}{end}")?;
        }
        Ok(())
    }
}

impl Graph {
    /// Takes an edge out of each cycle in which nothing requires anything: such an order cannot be kept, and nothing fails
    /// without it. Returns the lines that no longer count. Cycles with a requirement stay.
    pub fn break_soft_cycles(&mut self) -> Vec<Step> {
        let mut broken = Vec::new();
        loop {
            let task = |node: usize| matches!(self.nodes[node], Node::Task(_));
            let gone: Vec<bool> = self.edges.iter().map(|e| e.hard && task(e.to)).collect();
            let component = self.components(&gone);
            // What ties a mark to its providers is no relation between tasks.
            let breakable = |e: &u32| {
                let edge = &self.edges[*e as usize];
                !matches!(self.nodes[edge.from], Node::Begin(_))
                    && !matches!(self.nodes[edge.to], Node::End(_))
            };
            let cycle = self.one_cycle(&component, &gone).unwrap_or_default();
            let last = cycle.into_iter().filter(breakable);
            let Some(last) = last.max_by_key(|e| &self.edges[*e as usize].at) else {
                return broken;
            };
            broken.extend(self.show(&[last]).steps);
            self.edges.remove(last as usize);
            self.index();
        }
    }

    /// Enough cycles that without one edge of each nothing is left of them (up to 100); short ones first.
    pub fn cycles(&self) -> Vec<Cycle> {
        let mut gone = vec![false; self.edges.len()];
        let mut cycles = Vec::new();
        while cycles.len() < MAX_CYCLES {
            let component = self.components(&gone);
            let Some(cycle) = self.one_cycle(&component, &gone) else {
                break;
            };
            for edge in &cycle {
                gone[*edge as usize] = true;
            }
            cycles.push(self.show(&cycle));
        }
        cycles
    }

    fn show(&self, cycle: &[u32]) -> Cycle {
        let label = |node: usize| match self.nodes[node] {
            Node::Task(_) => self.label(node).to_owned(),
            Node::Begin(_) | Node::End(_) => format!("mark {}", self.label(node)),
            Node::Any(_) => format!("one of {}", self.label(node)),
        };
        let step = |edge: &Edge| Step {
            from: label(edge.from),
            to: label(edge.to),
            at: edge.at.clone(),
        };
        let steps = cycle.iter().map(|e| step(&self.edges[*e as usize]));
        Cycle {
            steps: steps.collect(),
        }
    }

    /// The shortest cycle through the first node that is on one, as edges in their order.
    fn one_cycle(&self, component: &[usize], gone: &[bool]) -> Option<Vec<u32>> {
        let inside = |e: &u32| {
            let edge = &self.edges[*e as usize];
            !gone[*e as usize] && component[edge.from] == component[edge.to]
        };
        let start = (0..self.nodes.len()).find(|n| self.out.of(*n).iter().any(inside))?;
        let mut came: Vec<Option<u32>> = vec![None; self.nodes.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for e in self.out.of(node).iter().copied().filter(inside) {
                let to = self.edges[e as usize].to;
                if to == start {
                    return Some(self.trace(start, e, &came));
                }
                if came[to].is_none() {
                    came[to] = Some(e);
                    queue.push_back(to);
                }
            }
        }
        None
    }

    fn trace(&self, start: usize, last: u32, came: &[Option<u32>]) -> Vec<u32> {
        let mut path = vec![last];
        let mut node = self.edges[last as usize].from;
        while node != start {
            let Some(edge) = came[node] else { break };
            path.push(edge);
            node = self.edges[edge as usize].from;
        }
        path.reverse();
        path
    }

    /// The strongly connected component of every node (Tarjan 1972, without recursion: chains may be long).
    fn components(&self, gone: &[bool]) -> Vec<usize> {
        const NEW: usize = usize::MAX;
        let n = self.nodes.len();
        let (mut index, mut low, mut component) = (vec![NEW; n], vec![0; n], vec![NEW; n]);
        let (mut stack, mut calls, mut count) = (Vec::new(), Vec::new(), 0);
        for root in 0..n {
            if index[root] != NEW {
                continue;
            }
            calls.push((root, 0));
            while let Some((node, next)) = calls.pop() {
                if next == 0 {
                    index[node] = count;
                    low[node] = count;
                    count += 1;
                    stack.push(node);
                }
                if let Some(e) = self.out.of(node).get(next) {
                    calls.push((node, next + 1));
                    let to = self.edges[*e as usize].to;
                    if gone[*e as usize] {
                        continue;
                    }
                    if index[to] == NEW {
                        calls.push((to, 0));
                    } else if component[to] == NEW {
                        low[node] = low[node].min(index[to]);
                    }
                    continue;
                }
                if low[node] == index[node] {
                    while let Some(member) = stack.pop() {
                        component[member] = node;
                        if member == node {
                            break;
                        }
                    }
                }
                if let Some((parent, _)) = calls.last() {
                    low[*parent] = low[*parent].min(low[node]);
                }
            }
        }
        component
    }
}
