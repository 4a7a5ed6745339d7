//! `tests/data/cron_vectors.sample.json`: what other cron implementations say.

use std::collections::BTreeMap;

use farmhand_common::core::definition::DstPolicy;
use jiff::Timestamp;
use serde::Deserialize;

use super::parse_in;

#[derive(Deserialize)]
struct Vector {
    id: String,
    group: String,
    expr: String,
    #[serde(default)]
    error: bool,
    #[serde(default)]
    never: bool,
    tz: Option<String>,
    from: Option<Timestamp>,
    #[serde(default)]
    next: Vec<Timestamp>,
    contested: bool,
}

fn vectors(group: &str, contested: bool) -> Vec<Vector> {
    let all: Vec<Vector> =
        serde_json::from_str(include_str!("../data/cron_vectors.sample.json")).expect("the sample is JSON");
    all.into_iter()
        .filter(|v| v.group == group && v.contested == contested)
        .collect()
}

/// What we do differently from the vector, or None.
fn difference(v: &Vector) -> Option<String> {
    let parsed = parse_in(&v.expr, v.tz.as_deref().unwrap_or("UTC"), DstPolicy::Once);
    match parsed {
        Err(_) if v.error || v.never => None,
        Err(e) => Some(format!("refused: {e}")),
        Ok(_) if v.error => Some("accepted".to_owned()),
        Ok(_) if v.never => Some("accepted, fires".to_owned()),
        Ok(schedule) => {
            let got: Vec<_> = schedule
                .iter_after(v.from.expect("from"))
                .take(v.next.len())
                .collect();
            (got != v.next).then(|| format!("got {got:?}, not {:?}", v.next))
        }
    }
}

/// Runs a group and compares the deviations, by id, with the listed ones: no more and no fewer.
fn run(group: &str, contested: bool, count: usize, deviations: &[(&str, &str)]) {
    let vectors = vectors(group, contested);
    assert_eq!(vectors.len(), count, "vectors in group {group}");
    let found: BTreeMap<&str, String> = vectors
        .iter()
        .filter_map(|v| Some((v.id.as_str(), difference(v)?)))
        .collect();
    let listed: BTreeMap<&str, &str> = deviations.iter().copied().collect();
    for (id, what) in &found {
        let expr = &vectors.iter().find(|v| v.id == *id).unwrap().expr;
        assert!(listed.contains_key(id), "{id} {expr:?}: {what}");
    }
    for (id, reason) in listed {
        assert!(
            found.contains_key(id),
            "{id} is listed as a deviation ({reason}) but agrees"
        );
    }
}

#[test]
fn every_uncontested_standard_vector_agrees() {
    run("std5", false, 110, &[]);
}
