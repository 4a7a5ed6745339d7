//! Which job triggers which, and what is wrong with all of them together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A mistake that only all jobs together show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerFault {
    /// Nobody knows the parent.
    #[error("{child} is triggered by {parent}, and there is no such job (any more)")]
    Unknown { child: String, parent: String },
    /// Each is triggered by the next, the last by the first.
    #[error("{} is triggered by {}: a circle", .0.join(" is triggered by "), .0.first().map_or("", String::as_str))]
    Cycle(Vec<String>),
    /// One of several parents is continuous.
    #[error(
        "{child} is triggered by {parent} and others; {parent} is continuous, and its rounds share no instant with others"
    )]
    Endless { child: String, parent: String },
}

/// After whose ends a job runs, for people; None for a job that nothing triggers.
pub fn trigger_text(spec: &Value) -> Option<String> {
    let parents: Vec<&str> = spec["triggered_by"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let how = match (spec["trigger_on"].as_str(), parents.len()) {
        (_, 0) => return None,
        (Some("failure"), 1) => "fails",
        (Some("failure"), _) => "fail",
        (Some("finish"), 1) => "ends",
        (Some("finish"), _) => "end",
        (_, 1) => "succeeds",
        _ => "succeed",
    };
    Some(format!("after {} {how}", parents.join(" and ")))
}

/// Everything wrong with the triggers of a farm: `parents` holds every job that exists, with those that trigger it.
pub fn trigger_faults(parents: &BTreeMap<&str, Vec<&str>>) -> Vec<TriggerFault> {
    let mut faults = Vec::new();
    for (child, list) in parents {
        for parent in list.iter().filter(|p| !parents.contains_key(**p)) {
            faults.push(TriggerFault::Unknown {
                child: (*child).to_owned(),
                parent: (*parent).to_owned(),
            });
        }
    }
    let mut done = BTreeSet::new();
    for start in parents.keys() {
        faults.extend(circle(parents, start, &mut done).map(TriggerFault::Cycle));
    }
    faults
}

/// The first circle found from `start`, depth first, among what is not `done`. A stack of its own: chains may be long.
fn circle<'a>(
    parents: &BTreeMap<&'a str, Vec<&'a str>>,
    start: &'a str,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<String>> {
    let mut path: Vec<(&str, usize)> = Vec::new();
    if done.insert(start) {
        path.push((start, 0));
    }
    while let Some((job, next)) = path.last_mut() {
        let Some(parent) = parents.get(*job).and_then(|list| list.get(*next)).copied() else {
            path.pop();
            continue;
        };
        *next += 1;
        if let Some(from) = path.iter().position(|(seen, _)| *seen == parent) {
            return Some(path[from..].iter().map(|(job, _)| (*job).to_owned()).collect());
        }
        if done.insert(parent) {
            path.push((parent, 0));
        }
    }
    None
}
