//! What differs between two revisions of a definition.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

/// One key of a definition, before and after; null where it was not there.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Change {
    pub old: Value,
    pub new: Value,
}

/// The keys that differ, those of an older or newer version's spec included: the store compares whole values.
pub fn differences(old: &Value, new: &Value) -> Vec<String> {
    let keys = |v: &Value| -> BTreeSet<String> {
        v.as_object()
            .into_iter()
            .flat_map(|o| o.keys().cloned())
            .collect()
    };
    keys(old)
        .union(&keys(new))
        .filter(|key| old.get(key.as_str()) != new.get(key.as_str()))
        .cloned()
        .collect()
}

/// What each of them was, and is.
pub fn changes(old: &Value, new: &Value) -> BTreeMap<String, Change> {
    let change = |key: String| {
        let of = |spec: &Value| spec.get(&key).cloned().unwrap_or(Value::Null);
        let change = Change {
            old: of(old),
            new: of(new),
        };
        (key, change)
    };
    differences(old, new).into_iter().map(change).collect()
}
