//! Variables that look like passwords: their values go to the nodes' store, and commands read them from there.

use std::collections::{BTreeMap, BTreeSet};

use super::{Names, has_secret, is_secret};
use crate::redact::SHORTEST;

/// What stands for a value.
const HIDDEN: &str = "***";

/// What the agent gives a job.
const LONGEST: usize = 64 << 10;
const LONGEST_NAME: usize = 100;
/// Of one job.
pub(crate) const MOST: usize = 64;

/// The values of one import, by variable and value; those that are the same are one entry.
#[derive(Debug, Default)]
pub(crate) struct Store {
    entries: BTreeMap<(String, String), String>,
    names: Names,
}

impl Store {
    /// The entry for a job's variable.
    pub fn entry(&mut self, job: &str, variable: &str, value: &str) -> String {
        let key = (variable.to_owned(), value.to_owned());
        let name = || self.names.unique(&format!("{job}.{variable}"));
        self.entries.entry(key).or_insert_with(name).clone()
    }

    /// An entry of this name, or with a number behind it, whose value is not known here.
    pub fn unique(&mut self, entry: &str) -> String {
        self.names.unique(entry)
    }

    /// No other value gets this entry.
    pub fn reserve(&mut self, entry: String) {
        self.names.reserve(entry);
    }

    /// Values by entry.
    pub fn into_values(self) -> BTreeMap<String, String> {
        (self.entries.into_iter())
            .map(|((_, value), entry)| (entry, value))
            .collect()
    }
}

/// Whether a variable goes to the store; what is too short there could not be hidden in the output.
pub(crate) fn is_stored(name: &str, value: &str) -> bool {
    is_secret(name, value)
        && (SHORTEST..=LONGEST).contains(&value.len())
        && name.len() <= LONGEST_NAME
        && !value.ends_with('\n')
}

/// The variables that go to the store: those that look like passwords, and those that hold one of them.
pub(crate) fn stored(env: &BTreeMap<String, String>) -> BTreeSet<String> {
    let values: Vec<&String> = (env.iter().filter(|(name, value)| is_stored(name, value)))
        .map(|(_, value)| value)
        .collect();
    let holds = |value: &String| values.iter().any(|secret| value.contains(*secret));
    let fits = |name: &str, value: &String| {
        name.len() <= LONGEST_NAME && value.len() <= LONGEST && !value.ends_with('\n')
    };
    (env.iter()
        .filter(|(name, value)| holds(value) && fits(name, value)))
    .map(|(name, _)| name.clone())
    .collect()
}

/// What to say of a variable that looks like a password.
pub(crate) fn secret_note(name: &str, value: &str) -> String {
    match is_stored(name, value) {
        true => format!(
            "{name} looks like a secret: its value is for the nodes' store and not in the job file, which names it in `secrets`; \
             the command reads it from there"
        ),
        false => format!(
            "{name} looks like a secret, and the nodes' store takes {SHORTEST} bytes to {} KiB: it stands in the job file, and after \
             `job apply` in the database",
            LONGEST >> 10
        ),
    }
}

/// Where a shell puts a list of arguments.
const ARGUMENTS: &str = "exec \"$@\"";

fn read(variable: &str) -> String {
    format!("{variable}=\"$(/bin/cat \"$FARMHAND_SECRET_{variable}_FILE\")\"; ")
}

/// A line for a shell that has these variables of the store.
pub(crate) fn with_variables<'a>(variables: impl IntoIterator<Item = &'a String>, line: &str) -> String {
    let exports = variables.into_iter().map(|name| format!("export {}", read(name)));
    exports.collect::<String>() + line
}

/// The same for a command that no shell reads.
pub(crate) fn argv_with_variables<'a>(
    variables: impl IntoIterator<Item = &'a String>,
    argv: &[String],
) -> Vec<String> {
    let line = with_variables(variables, ARGUMENTS);
    let shell = ["/bin/sh".to_owned(), "-c".to_owned(), line, "sh".to_owned()];
    [&shell[..], argv].concat()
}

/// The line as it was before.
pub(crate) fn without_variables(line: &str) -> &str {
    let mut rest = line;
    while let Some(export) = rest.strip_prefix("export ")
        && let Some((name, _)) = export.split_once('=')
        && let Some(after) = export.strip_prefix(&read(name))
    {
        rest = after;
    }
    rest
}

/// The command as it was before.
pub(crate) fn argv_without_variables(argv: &[String]) -> &[String] {
    match argv {
        [_, flag, line, _, inner @ ..]
            if flag == "-c" && line != ARGUMENTS && without_variables(line) == ARGUMENTS =>
        {
            inner
        }
        _ => argv,
    }
}

/// The text without these values.
pub(crate) fn hide(text: &mut String, values: &BTreeMap<String, String>) {
    let mut values: Vec<&String> = values.values().collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    for value in values {
        if text.contains(value) {
            *text = text.replace(value, HIDDEN);
        }
    }
}

/// The line of a variable, without a value that looks like a password: a job may have it below, or none.
pub(crate) fn hide_variable(line: &str, name: &str, value: &str) -> String {
    match line.split_once('=') {
        Some((left, right)) if is_secret(name, value) => format!("{left}={}", right.replace(value, HIDDEN)),
        _ => line.to_owned(),
    }
}

/// Whether a comment has what looks like a password and is not hidden, as a line that was switched off may.
pub(super) fn tells_secret(comment: &str) -> bool {
    has_secret(&comment.trim_start_matches('#').replace(HIDDEN, ""))
}
