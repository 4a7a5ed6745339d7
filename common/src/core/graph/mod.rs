//! Tasks and what they say about each other become a graph: which must end before which starts.
//!
//! A name that several tasks provide (a *mark*) becomes two nodes, one that all its providers start after and
//! one that ends when all of them have. So 5,000 tasks that require what 5,000 others provide are 10,000
//! edges, not 25 million.

mod cycles;
mod order;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

pub use cycles::Cycle;
pub use order::{CriticalPath, Order};

/// Where a relation is written. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    #[serde(serialize_with = "as_text")]
    pub file: Arc<str>,
    pub line: u32,
}

fn as_text<S: Serializer>(text: &Arc<str>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(text)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// After it, and only if it succeeded.
    Requires,
    /// After it, however it ended.
    After,
    /// It comes later.
    Before,
    /// Never at the same time.
    Conflicts,
}

/// What a task says about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub relation: Relation,
    pub name: String,
    /// Whether it may be that nobody provides it.
    pub optional: bool,
    pub at: Place,
}

/// A task as the graph sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Names others use for it, and where it says so.
    pub provides: Vec<(String, Place)>,
    /// Names that mean it when nobody provides them.
    pub aliases: Vec<String>,
    pub references: Vec<Reference>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Index of the member; equal to the index of the node.
    Task(usize),
    /// All providers of a mark come after it. Index of the mark.
    Begin(usize),
    /// Has ended when all providers of the mark have.
    End(usize),
}

/// `to` starts after `from` has ended. Indices of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    /// Whether a failure of `from` keeps `to` from running.
    pub hard: bool,
    pub at: Place,
}

/// A name that nobody provides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    pub name: String,
    pub task: String,
    pub relation: Relation,
    #[serde(flatten)]
    pub at: Place,
}

#[derive(Clone, Copy, Debug)]
struct Target {
    /// What has to wait for something that comes before the name.
    begin: usize,
    /// What has ended when the name has.
    end: usize,
}

/// Tasks `0..tasks` are nodes of the same index; marks follow.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    labels: Vec<String>,
    tasks: usize,
    marks: Vec<String>,
    targets: BTreeMap<String, usize>,
    edges: Vec<Edge>,
    /// Indices of edges by the node they leave, and by the node they reach.
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
    conflicts: Vec<Vec<usize>>,
    missing: Vec<Missing>,
}

impl Graph {
    /// Resolves every name. Names that nobody provides are in [`Self::missing`].
    pub fn new(members: &[Member]) -> Self {
        let mut graph = Self {
            nodes: (0..members.len()).map(Node::Task).collect(),
            labels: members.iter().map(|m| m.name.clone()).collect(),
            tasks: members.len(),
            conflicts: vec![Vec::new(); members.len()],
            ..Self::default()
        };
        let providers = providers(members);
        let bare: BTreeSet<&str> = members
            .iter()
            .flat_map(|m| &m.aliases)
            .map(String::as_str)
            .collect();
        let targets = graph.resolve_names(&providers, &bare);
        for (task, member) in members.iter().enumerate() {
            for reference in &member.references {
                match targets.get(reference.name.as_str()) {
                    Some(target) => graph.relate(task, *target, reference, &providers),
                    None if reference.optional => {}
                    None => graph.missing.push(Missing {
                        name: reference.name.clone(),
                        task: member.name.clone(),
                        relation: reference.relation,
                        at: reference.at.clone(),
                    }),
                }
            }
        }
        graph.missing.sort();
        graph.missing.dedup();
        let own = members.iter().enumerate().map(|(task, m)| (m.name.clone(), task));
        graph.targets = own.collect();
        let named = targets.iter().map(|(n, t)| ((*n).to_owned(), t.end));
        graph.targets.extend(named);
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
                && (self.labels[*only] == **name || bare.contains(name))
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
            self.marks.push((*name).to_owned());
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

    fn relate(&mut self, task: usize, target: Target, r: &Reference, providers: &BTreeMap<&str, Providers>) {
        match r.relation {
            Relation::Requires => self.edge(target.end, task, true, &r.at),
            Relation::After => self.edge(target.end, task, false, &r.at),
            Relation::Before => self.edge(task, target.begin, false, &r.at),
            Relation::Conflicts => {
                for (other, _) in providers.get(r.name.as_str()).into_iter().flatten() {
                    if *other != task {
                        self.conflicts[task].push(*other);
                        self.conflicts[*other].push(task);
                    }
                }
            }
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
    fn index(&mut self) {
        self.edges
            .sort_by(|a, b| (a.from, a.to, !a.hard, &a.at).cmp(&(b.from, b.to, !b.hard, &b.at)));
        self.edges.dedup_by_key(|e| (e.from, e.to));
        self.out = vec![Vec::new(); self.nodes.len()];
        self.into = vec![Vec::new(); self.nodes.len()];
        for (index, edge) in (0..).zip(&self.edges) {
            self.out[edge.from].push(index);
            self.into[edge.to].push(index);
        }
        for list in &mut self.conflicts {
            list.sort_unstable();
            list.dedup();
        }
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// Tasks first, marks after them.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    pub fn out(&self, node: usize) -> impl Iterator<Item = &Edge> {
        self.out[node].iter().map(|e| &self.edges[*e as usize])
    }

    /// Indices into [`Self::edges`].
    pub fn edges_out(&self, node: usize) -> &[u32] {
        &self.out[node]
    }

    pub fn into(&self, node: usize) -> impl Iterator<Item = &Edge> {
        self.into[node].iter().map(|e| &self.edges[*e as usize])
    }

    /// Tasks that may not run at the same time as this one.
    pub fn conflicts(&self, task: usize) -> &[usize] {
        &self.conflicts[task]
    }

    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Every name that may be waited for, those of the tasks included, and the node whose end it is.
    pub fn names(&self) -> &BTreeMap<String, usize> {
        &self.targets
    }

    /// What people call a node.
    pub fn label(&self, node: usize) -> &str {
        match self.nodes[node] {
            Node::Task(task) => &self.labels[task],
            Node::Begin(mark) | Node::End(mark) => &self.marks[mark],
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

type Providers = Vec<(usize, Place)>;

fn providers(members: &[Member]) -> BTreeMap<&str, Providers> {
    let mut providers: BTreeMap<&str, Providers> = BTreeMap::new();
    for (task, member) in members.iter().enumerate() {
        for (name, at) in &member.provides {
            let list = providers.entry(name).or_default();
            if list.last().is_none_or(|(last, _)| *last != task) {
                list.push((task, at.clone()));
            }
        }
    }
    let mut aliases: BTreeMap<&str, Providers> = BTreeMap::new();
    for (task, member) in members.iter().enumerate() {
        for name in &member.aliases {
            if !providers.contains_key(name.as_str()) {
                let at = member.provides.first().map(|(_, at)| at.clone());
                let file = member.name.as_str().into();
                let at = at.unwrap_or(Place { file, line: 1 });
                aliases.entry(name).or_default().push((task, at));
            }
        }
    }
    providers.extend(aliases);
    providers
}
