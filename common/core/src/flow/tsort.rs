//! Pairs as tsort(1) reads them: `dependency dependent`, and a name with itself only to name it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::task::{Action, Malformed, Task, reference};
use crate::graph::{Place, Relation};

/// Adds the relations of the pairs. With `create`, names that are no tasks yet become tasks that do nothing;
/// without, they stay names that somebody has to provide.
pub fn add_pairs(tasks: &mut Vec<Task>, file: &str, text: &str, create: bool) -> Result<(), Malformed> {
    let file: Arc<str> = file.into();
    let mut words = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let at = Place::new(file.clone(), number);
        words.extend(line.split_whitespace().map(|w| (w, at.clone())));
    }
    if let (1, Some((word, at))) = (words.len() % 2, words.last()) {
        return Err(Malformed {
            at: at.clone(),
            what: format!("`{word}` stands alone: names come in pairs"),
            fix: format!("write `{word} {word}` to name it, or `dependency dependent`"),
        });
    }
    let mut index: BTreeMap<String, usize> = tasks
        .iter()
        .enumerate()
        .map(|(i, t)| (t.name().to_owned(), i))
        .collect();
    if create {
        for (word, at) in &words {
            if !index.contains_key(*word) {
                index.insert((*word).to_owned(), tasks.len());
                tasks.push(Task::new(*word, at.clone(), Action::Nothing));
            }
        }
    }
    for task in tasks.iter_mut() {
        let name = task.name().to_owned();
        if !task.member.provides.iter().any(|(n, _)| *n == name) && !task.member.aliases.contains(&name) {
            task.member.aliases.push(name);
        }
    }
    for pair in words.chunks_exact(2) {
        let [(from, _), (to, at)] = pair else { continue };
        match index.get(*to) {
            Some(task) if from != to => {
                let r = reference(Relation::Requires, from, false, at);
                tasks[*task].member.references.push(r);
            }
            Some(_) => {}
            // Who waits does not exist: the one that exists is asked to name it, so that it is reported.
            None => {
                if let Some(task) = index.get(*from) {
                    let r = reference(Relation::Before, to, false, at);
                    tasks[*task].member.references.push(r);
                }
            }
        }
    }
    Ok(())
}
