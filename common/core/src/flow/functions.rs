//! One shell file that holds tasks as functions, each with its annotations right above it.

use std::sync::Arc;

use super::rcorder;
use super::scripts::{Script, Selection};
use super::task::{Action, Malformed, Task};
use crate::graph::Place;

/// The functions that have annotations. Functions without any are helpers.
pub fn functions(path: &str, text: &str, selection: &Selection) -> Vec<Task> {
    let file: Arc<str> = path.into();
    let mut tasks = Vec::new();
    for Commented {
        name,
        line,
        block,
        first,
    } in commented(text)
    {
        let Some(header) = rcorder::header(&file, &block, first) else {
            continue;
        };
        let at = Place::new(file.clone(), line);
        let action = Action::Function {
            file: path.to_owned(),
            name: name.to_owned(),
        };
        let mut task = Task::new(name, at.clone(), action).described(header, selection);
        task.member.provides.push((name.to_owned(), at));
        tasks.push(task);
    }
    tasks
}

/// Misspelt annotations above the functions of a file.
pub fn doubtful_functions(script: &Script) -> Vec<Malformed> {
    commented(&script.text)
        .flat_map(|c| rcorder::misspelt(&script.path, &c.block, c.first))
        .collect()
}

/// A function, and the comment right above it.
struct Commented<'t> {
    name: &'t str,
    line: u32,
    block: String,
    /// The number of the comment's first line.
    first: u32,
}

fn commented(text: &str) -> impl Iterator<Item = Commented<'_>> {
    let mut comment = Vec::new();
    text.lines().zip(1..).filter_map(move |(text, line)| {
        if text.starts_with('#') {
            comment.push(text);
            return None;
        }
        let above = std::mem::take(&mut comment);
        let lines = u32::try_from(above.len()).unwrap_or(u32::MAX);
        function(text).map(|name| Commented {
            name,
            line,
            block: above.join("\n"),
            first: line.saturating_sub(lines),
        })
    })
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
