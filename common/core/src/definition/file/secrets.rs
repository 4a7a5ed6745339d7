//! `[job.NAME.secrets]`: names, never values.

use std::collections::BTreeMap;

use crate::definition::spec::job::JobSpec;
use crate::definition::spec::names::{LONGEST_NAME, secret_name};
use crate::document::{Reader, text};

/// Of a job; each is a file and a variable.
const MOST: usize = 64;

pub(super) fn entries(names: Reader<'_>) -> BTreeMap<String, String> {
    let mut into = BTreeMap::new();
    let sink = names.sink();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (name, entry) in names.values(text) {
        if secret_name(&name).is_err() {
            sink.report(
                entry.span,
                format!("`{name}` is not a valid secret name"),
                "letters, digits and _, as in a variable: it becomes FARMHAND_SECRET_NAME_FILE",
            );
            continue;
        }
        let good = |c: char| plain(c) || "-.@".contains(c);
        let value = &entry.value;
        if value.is_empty()
            || value.len() > LONGEST_NAME
            || value.starts_with('.')
            || !value.chars().all(good)
        {
            sink.report(
                entry.span,
                format!("secret `{name}`: not a valid entry name of a node's store"),
                "write the entry's name, never the secret itself: letters, digits and . _ @ -",
            );
            continue;
        }
        if into.len() >= MOST {
            sink.report(
                entry.span,
                format!("more than {MOST} secrets"),
                "put several into one entry",
            );
            break;
        }
        into.insert(name, entry.value);
    }
    into
}

/// What cannot be hidden is not given.
pub(super) fn check(job: &mut Reader<'_>, spec: &JobSpec) {
    if spec.stream.is_some() {
        job.refuse(
            "secrets",
            "a stream cannot have `secrets`",
            "its engine records the output of failed lines; have the command fetch them itself",
        );
    }
}
