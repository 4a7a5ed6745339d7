//! `where` of a file.

use std::collections::BTreeSet;

use serde_json::Value;
use toml::de::DeValue;

use crate::definition::spec::placement::Placement;
use crate::document::{Reader, Wrong, text};

/// More sets of labels than this are not stored with each run.
const MAX_SETS: usize = 1_000;

/// The value of a label, or a list of them.
pub(super) fn label(value: &DeValue<'_>) -> Result<Value, Wrong> {
    let Some(items) = value.as_array() else {
        return text(value).map(Value::from);
    };
    let all: BTreeSet<String> = items
        .iter()
        .map(|item| text(item.get_ref()))
        .collect::<Result<_, _>>()?;
    match all.len() {
        0 => Err(Wrong::new(
            "no node has one of no values",
            "name a value, or leave the label out",
        )),
        // As it is stored: the order says nothing, and one alone is a text.
        1 => Ok(all.into_iter().collect::<String>().into()),
        _ => Ok(all.into_iter().collect()),
    }
}

/// Whether it is small enough to be stored with each run.
pub(super) fn check(job: &mut Reader<'_>, placement: &Placement) {
    if placement.combinations().is_none_or(|sets| sets > MAX_SETS) {
        job.refuse(
            "where",
            format!("`where`: its lists can be combined in more than {MAX_SETS} ways"),
            "name fewer values, or give these nodes a label of their own",
        );
    }
}
