//! Names that are a task's own, and that others provide as well.

use std::fmt;

use super::build::{Graph, Node};
use super::members::Place;

/// What waits for `name` does not wait for the task of that name, or not for it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The name that is there twice.
    pub name: String,
    /// Other tasks that provide the name, and where the first of them says so.
    pub others: Vec<String>,
    pub at: Place,
    /// Whether the task itself provides it, too.
    pub both: bool,
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            others,
            at,
            both,
            ..
        } = self;
        let others = others.join(" and ");
        let those = if *both {
            format!("the task and {others}")
        } else {
            format!("{others}, not the task")
        };
        write!(
            f,
            "{at}: `{name}` is the name of a task, and {others} provides it: what waits for it waits for {those}"
        )
    }
}

impl Graph {
    /// Tasks whose names mean something else; they can be waited for as `task NAME`.
    pub fn collisions(&self) -> Vec<Collision> {
        let collision = |task: usize| {
            let name = self.label(task);
            let target = *self.targets.get(name)?;
            if target == task {
                return None;
            }
            let mut providers: Vec<(usize, &Place)> = match self.nodes[target] {
                Node::Task(other) => self.out(other).map(|e| (other, &e.at)).take(1).collect(),
                _ => self.into(target).map(|e| (e.from, &e.at)).collect(),
            };
            let all = providers.len();
            providers.retain(|(provider, _)| *provider != task);
            Some(Collision {
                name: name.to_owned(),
                at: providers.first()?.1.clone(),
                both: providers.len() < all,
                others: providers.iter().map(|(t, _)| self.label(*t).to_owned()).collect(),
            })
        };
        (0..self.tasks).filter_map(collision).collect()
    }
}
