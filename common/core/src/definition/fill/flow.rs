//! The tasks of a job file as a flow runs them.

use std::sync::Arc;

use super::placeholders::Filling;
use crate::command::Command;
use crate::definition::spec::flow::{FlowSpec, TaskSpec};
use crate::flow::{Action, Extras, Task};
use crate::graph::{Place, Reference, Relation};

impl FlowSpec {
    /// With `{instance}`, `{slot}` and `{due}` of lists filled in.
    #[must_use]
    pub fn filled(mut self, with: &Filling) -> Self {
        for task in self.tasks.values_mut() {
            if let Some(Command::Argv(argv)) = &mut task.command {
                argv.iter_mut().for_each(|word| *word = with.within(word));
            }
        }
        self
    }

    /// The tasks of the job file, in the order of their names. Places say the task and no line.
    pub fn tasks(&self) -> Vec<Task> {
        let place = |name: &str| Place::new(name, 0);
        self.tasks
            .iter()
            .map(|(name, spec)| task(name, spec, |_, _| place(name)))
            .collect()
    }
}

pub(in crate::definition) fn task(
    name: &str,
    spec: &TaskSpec,
    at: impl Fn(&'static str, usize) -> Place,
) -> Task {
    let action = spec.command.clone().map_or(Action::Nothing, Action::Command);
    let mut task = Task::new(name, at("", 0), action);
    task.member.provides.push((name.to_owned(), at("", 0)));
    let provided = spec.provides.iter().enumerate();
    task.member
        .provides
        .extend(provided.map(|(i, n)| (n.clone(), at("provides", i))));
    let lists = [
        (Relation::Requires, "requires", &spec.requires),
        (Relation::After, "after", &spec.after),
        (Relation::Before, "before", &spec.before),
        (Relation::Conflicts, "conflicts", &spec.conflicts),
    ];
    for (relation, key, names) in lists {
        let references = names.iter().enumerate().map(|(i, other)| Reference {
            relation,
            name: other.clone(),
            optional: false,
            at: at(key, i),
        });
        task.member.references.extend(references);
    }
    task.extras = Arc::new(Extras {
        rounds: None,
        locks: spec.locks.clone(),
        pool: spec.pool.clone(),
        timeout: spec.timeout,
        retry: spec.retry.clone(),
        env: spec.env.clone(),
    });
    task.always_run = spec.always_run;
    task
}
