//! The graph, and how it is made of what tasks say.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::lists::Lists;
use super::members::{Member, Place, Reference, Relation};
use super::names::{Providers, Target, alternatives, own_name, providers};

/// What an edge of the graph leads from or to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Index of the member; equal to the index of the node.
    Task(usize),
    /// All providers of a mark come after it. Index of the mark.
    Begin(usize),
    /// Has ended when all providers of the mark have.
    End(usize),
    /// `a|b`: succeeds with the first of them that succeeds, and fails when all have ended and none succeeded. Index of its name
    /// among the marks.
    Any(usize),
}

/// `to` starts after `from` has ended. Indices of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The node that comes first.
    pub from: usize,
    /// The node that waits for it.
    pub to: usize,
    /// Whether a failure of `from` keeps `to` from running.
    pub hard: bool,
    pub at: Place,
}

/// A name that no task provides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// The name that no task provides.
    pub name: String,
    pub task: String,
    pub relation: Relation,
    #[serde(flatten)]
    pub at: Place,
}

/// Tasks `0..tasks` are nodes of the same index; marks follow.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) labels: Vec<Arc<str>>,
    pub(super) tasks: usize,
    pub(super) marks: Vec<Arc<str>>,
    pub(super) targets: BTreeMap<Arc<str>, usize>,
    pub(super) edges: Vec<Edge>,
    /// Indices of edges by the node they leave, and by the node they reach.
    pub(super) out: Lists<u32>,
    pub(super) into: Lists<u32>,
    pub(super) conflicts: Lists<usize>,
    pub(super) missing: Vec<Missing>,
}

impl Graph {
    /// Resolves every name. Names that nobody provides are in [`Self::missing`].
    pub fn new(members: &[impl Borrow<Member>]) -> Self {
        let members: Vec<&Member> = members.iter().map(Borrow::borrow).collect();
        let members = members.as_slice();
        let mut graph = Self {
            nodes: (0..members.len()).map(Node::Task).collect(),
            labels: members.iter().map(|m| m.name.clone()).collect(),
            tasks: members.len(),
            ..Self::default()
        };
        let providers = providers(members);
        let bare: BTreeSet<&str> = members
            .iter()
            .flat_map(|m| &m.aliases)
            .map(String::as_str)
            .collect();
        let targets = graph.resolve_names(&providers, &bare);
        let mut conflicts = BTreeSet::new();
        let mut anys = BTreeMap::new();
        for (task, member) in members.iter().enumerate() {
            for reference in &member.references {
                let found = alternatives(&targets, &reference.name);
                match found.as_slice() {
                    [] if reference.optional => {}
                    [] => graph.missing.push(Missing {
                        name: reference.name.clone(),
                        task: member.name.to_string(),
                        relation: reference.relation,
                        at: reference.at.clone(),
                    }),
                    all if reference.relation == Relation::Conflicts => {
                        let others = all.iter().filter_map(|(name, _)| providers.get(name)).flatten();
                        for (other, _) in others.filter(|(other, _)| *other != task) {
                            conflicts.extend([(task, *other), (*other, task)]);
                        }
                    }
                    several @ [_, _, ..] if reference.relation != Relation::Before => {
                        let any = *anys
                            .entry(reference.name.as_str())
                            .or_insert_with(|| graph.any(several, reference));
                        graph.relate(task, Target { begin: any, end: any }, reference);
                    }
                    all => all
                        .iter()
                        .for_each(|(_, target)| graph.relate(task, *target, reference)),
                }
            }
        }
        graph.missing.sort();
        graph.missing.dedup();
        graph.targets = graph.labels.iter().cloned().zip(0..).collect();
        for (name, target) in targets {
            match graph.targets.get_mut(name) {
                Some(end) if *end == target.end => {}
                Some(end) => {
                    let task = std::mem::replace(end, target.end);
                    let own = own_name(name).into();
                    graph.targets.entry(own).or_insert(task);
                }
                None => {
                    graph.targets.insert(name.into(), target.end);
                }
            }
        }
        graph.conflicts = Lists::new(graph.tasks, conflicts);
        graph.index();
        graph
    }

    fn resolve_names<'m>(
        &mut self,
        providers: &BTreeMap<&'m str, Providers>,
        bare: &BTreeSet<&str>,
    ) -> BTreeMap<&'m str, Target> {
        let mut targets = BTreeMap::new();
        for (name, list) in providers {
            // A name of its own for one task needs no mark; another name may be marked before the task ends.
            if let [(only, _)] = list.as_slice()
                && (*self.labels[*only] == **name || bare.contains(name))
            {
                targets.insert(
                    *name,
                    Target {
                        begin: *only,
                        end: *only,
                    },
                );
                continue;
            }
            let mark = self.marks.len();
            self.marks.push((*name).into());
            let target = Target {
                begin: self.nodes.len(),
                end: self.nodes.len() + 1,
            };
            self.nodes.extend([Node::Begin(mark), Node::End(mark)]);
            for (provider, at) in list {
                self.edge(target.begin, *provider, false, at);
                self.edge(*provider, target.end, true, at);
            }
            targets.insert(*name, target);
        }
        targets
    }

    fn any(&mut self, names: &[(&str, Target)], reference: &Reference) -> usize {
        let any = self.nodes.len();
        self.nodes.push(Node::Any(self.marks.len()));
        self.marks.push(reference.name.as_str().into());
        for (_, target) in names {
            self.edge(target.end, any, false, &reference.at);
        }
        any
    }

    fn relate(&mut self, task: usize, target: Target, r: &Reference) {
        match r.relation {
            Relation::Requires => self.edge(target.end, task, true, &r.at),
            Relation::After => self.edge(target.end, task, false, &r.at),
            Relation::Before => self.edge(task, target.begin, false, &r.at),
            Relation::Conflicts => {}
        }
    }

    fn edge(&mut self, from: usize, to: usize, hard: bool, at: &Place) {
        self.edges.push(Edge {
            from,
            to,
            hard,
            at: at.clone(),
        });
    }

    /// One edge for each pair; a hard one says more than a soft one.
    pub(super) fn index(&mut self) {
        self.edges
            .sort_by(|a, b| (a.from, a.to, !a.hard, &a.at).cmp(&(b.from, b.to, !b.hard, &b.at)));
        self.edges.dedup_by_key(|e| (e.from, e.to));
        self.edges.shrink_to_fit();
        let nodes = self.nodes.len();
        self.out = Lists::new(nodes, self.edges.iter().map(|e| e.from).zip(0..));
        let mut into: Vec<(usize, u32)> = self.edges.iter().map(|e| e.to).zip(0..).collect();
        into.sort_unstable();
        self.into = Lists::new(nodes, into);
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// Tasks first, marks after them.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All edges, in no order.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The edges that leave a node: what waits for it.
    pub fn out(&self, node: usize) -> impl Iterator<Item = &Edge> {
        self.out.of(node).iter().map(|e| &self.edges[*e as usize])
    }

    /// Indices into [`Self::edges`].
    pub fn edges_out(&self, node: usize) -> &[u32] {
        self.out.of(node)
    }

    /// Likewise.
    pub fn edges_into(&self, node: usize) -> &[u32] {
        self.into.of(node)
    }

    /// The edges that lead to a node: what it waits for.
    pub fn into(&self, node: usize) -> impl Iterator<Item = &Edge> {
        self.into.of(node).iter().map(|e| &self.edges[*e as usize])
    }

    /// Tasks that may not run at the same time as this one.
    pub fn conflicts(&self, task: usize) -> &[usize] {
        self.conflicts.of(task)
    }

    /// Names that tasks wait for and nobody provides.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Every name that may be waited for, those of the tasks included, and the node whose end it is.
    pub fn names(&self) -> &BTreeMap<Arc<str>, usize> {
        &self.targets
    }

    /// What people call a node.
    pub fn label(&self, node: usize) -> &str {
        match self.nodes[node] {
            Node::Task(task) => &self.labels[task],
            Node::Begin(mark) | Node::End(mark) | Node::Any(mark) => &self.marks[mark],
        }
    }

    /// Every (dependency, dependent) pair of tasks, marks replaced by their providers; sorted.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for to in 0..self.tasks {
            for from in self.dependencies(to, false) {
                pairs.push((from, to));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// The tasks that `task` comes right after, through marks; with `hard` only those that it requires.
    pub fn dependencies(&self, task: usize, hard: bool) -> Vec<usize> {
        let mut found = Vec::new();
        let mut look = vec![task];
        while let Some(node) = look.pop() {
            for edge in self.into(node).filter(|e| e.hard || !hard) {
                match self.nodes[edge.from] {
                    Node::Task(from) => found.push(from),
                    _ => look.push(edge.from),
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
