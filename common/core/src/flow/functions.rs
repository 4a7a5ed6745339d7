//! One shell file that holds tasks as functions, each with its annotations right above it.

use std::sync::Arc;

use super::{Action, Direction, Selection, Task, rcorder};
use crate::graph::Place;

/// The functions that have annotations. Functions without any are helpers.
pub fn functions(path: &str, text: &str, selection: &Selection) -> Vec<Task> {
    let file: Arc<str> = path.into();
    let lines: Vec<&str> = text.lines().collect();
    let mut tasks = Vec::new();
    let mut comment = 0;
    for (index, line) in lines.iter().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        if let Some(name) = function(line) {
            let first = u32::try_from(comment + 1).unwrap_or(u32::MAX);
            let block = lines[comment..index].join("\n");
            if let Some(header) = rcorder::header(&file, &block, first) {
                let at = Place {
                    file: file.clone(),
                    line: u32::try_from(index + 1).unwrap_or(u32::MAX),
                };
                let action = Action::Function {
                    file: path.to_owned(),
                    name: name.to_owned(),
                };
                let mut task = Task::new(name, at.clone(), action).with_locks(header.locks.clone());
                task.left_out = header
                    .keywords
                    .iter()
                    .find(|k| selection.skip.contains(k))
                    .map(|k| format!("it has the keyword {k}"));
                if !selection.keep.is_empty() && !header.keywords.iter().any(|k| selection.keep.contains(k)) {
                    task.left_out = Some(format!("it has no keyword {}", selection.keep.join(" or ")));
                }
                task.member.provides = header.provides;
                task.member.provides.push((name.to_owned(), at));
                task.keywords = header.keywords;
                task.member.references = match selection.direction {
                    Direction::Start => header.start,
                    Direction::Stop => header.stop,
                };
                tasks.push(task);
            }
        }
        comment = index + 1;
    }
    tasks
}

/// The name in `name() …` or `function name …`.
fn function(line: &str) -> Option<&str> {
    let named = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let line = line.trim_end();
    let name = match line.strip_prefix("function ") {
        Some(rest) => rest.trim_start().split(['(', ' ', '{']).next()?,
        None => line
            .split_once('(')
            .filter(|(_, rest)| rest.trim_start().starts_with(')'))?
            .0
            .trim_end(),
    };
    named(name).then_some(name)
}
