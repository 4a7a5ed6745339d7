//! `tests/data/cron_vectors.sample.json`: what other cron implementations say.

use std::collections::BTreeMap;

use farmhand_core::definition::DstPolicy;
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

#[test]
fn every_uncontested_extended_vector_agrees_but_for_what_the_grammar_leaves_out() {
    let full_name = "names are three letters, as in cron(8): FRI";
    let wrapped_step = "a range that goes round takes no step: implementations disagree on its phase";
    run(
        "ext5",
        false,
        31,
        &[
            ("cv-0746", full_name),
            ("cv-0747", full_name),
            ("cv-0748", full_name),
            ("cv-0773", wrapped_step),
            ("cv-0782", wrapped_step),
            ("cv-0805", "the nearest weekday is written 15W, not W15"),
        ],
    );
}

#[test]
fn every_uncontested_vector_with_seconds_agrees() {
    run("sec6", false, 89, &[]);
    run("sec6ext", false, 26, &[]);
}

#[test]
fn vectors_with_a_year_field_are_refused() {
    let year = "there is no seventh field";
    run(
        "sec7year",
        false,
        4,
        &[("cv-2093", year), ("cv-2094", year), ("cv-2099", year)],
    );
}

/// The sides taken where implementations disagree; `docs/reference/schedules.md` gives the reasons.
#[test]
fn contested_vectors_fall_on_the_documented_side() {
    let sunday = "7 is another name of Sunday";
    run("std5", true, 25, &[("cv-0007", sunday), ("cv-0141", sunday)]);
    let ored = "both day fields restricted: either is enough (Vixie), so it does fire";
    run(
        "ext5",
        true,
        10,
        &[
            ("cv-0741", "@reboot is a kind of its own"),
            ("cv-0888", ored),
            ("cv-0894", ored),
            ("cv-0912", ored),
            ("cv-0920", ored),
            ("cv-0936", ored),
            ("cv-0939", ored),
            ("cv-0988", ored),
            ("cv-1052", ored),
            ("cv-1058", ored),
        ],
    );
    let step_from = "n/step means n to the end by step";
    let hour_star = "an hour field that begins with * is an interval: nothing is made up in a gap";
    let fixed = "fixed hours fire once on a repeated clock";
    let minute_first = "hour field begins with *: an interval, nothing is made up in a gap";
    run(
        "sec6",
        true,
        20,
        &[
            ("cv-1187", step_from),
            ("cv-1207", step_from),
            ("cv-1713", hour_star),
            ("cv-1714", hour_star),
            ("cv-1738", fixed),
            ("cv-1739", fixed),
            ("cv-1741", fixed),
        ],
    );
    run(
        "sec6ext",
        true,
        3,
        &[
            ("cv-1994", minute_first),
            ("cv-1995", minute_first),
            ("cv-2052", fixed),
        ],
    );
}

#[test]
fn every_schedule_of_the_sample_crontabs_is_accepted() {
    let manifest: serde_json::Value =
        serde_json::from_str(include_str!("../data/crontabs.sample/manifest.json")).unwrap();
    let jobs = manifest
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|file| file["jobs"].as_array().unwrap());
    let schedules: Vec<&str> = jobs.map(|job| job["schedule"].as_str().unwrap()).collect();
    assert_eq!(schedules.len(), 25);
    for schedule in schedules {
        parse_in(schedule, "UTC", DstPolicy::Once).unwrap();
    }
}
