//! The scheduler check on records that are forged.

use std::collections::BTreeSet;
use std::time::Duration;

use farmhand_tests::chaos::gather::Clocks;
use farmhand_tests::chaos::lateness::Timeline;
use farmhand_tests::chaos::oracle::Done;
use farmhand_tests::chaos::targets::{self, Began, Definition, Matched, Mismatch, Nodes, Record, Span};
use jiff::Timestamp;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("a time")
}

fn record(from: i64, to: i64, state: &str) -> Record {
    Record {
        run: from,
        job: "tick".to_owned(),
        instance: 0,
        node: None,
        state: state.to_owned(),
        reason: None,
        first_due: at(from),
        last_due: at(to),
        count: (to - from) / 2 + 1,
        began: None,
        lived_on: BTreeSet::new(),
        finished: (state != "skipped").then(|| at(to + 1)),
    }
}

fn definition() -> Definition {
    Definition {
        job: "tick".to_owned(),
        schedule: "*/2 * * * * *".to_owned(),
        instances: 1,
        each_node: false,
        skips: true,
        placed: false,
        waits: false,
        hold: Duration::ZERO,
    }
}

/// Every two seconds; 1,700,000,000 is an even one.
fn every_two_seconds(records: &[Record]) -> Vec<Mismatch> {
    matched(&definition(), records, &Nodes::default()).mismatches
}

fn matched(definition: &Definition, records: &[Record], nodes: &Nodes) -> Matched {
    let span = Span {
        from: at(0),
        to: at(10),
        clock_error: Duration::from_millis(20),
    };
    targets::check(definition, records, &span, nodes)
}

fn all() -> Vec<Record> {
    vec![
        record(2, 2, "succeeded"),
        record(4, 6, "skipped"),
        record(8, 8, "failed"),
        record(10, 10, "succeeded"),
        record(12, 12, "succeeded"),
    ]
}

#[test]
fn a_schedule_whose_instants_have_one_outcome_each_passes() {
    assert_eq!(every_two_seconds(&all()), []);
}

#[test]
fn instants_are_counted_by_the_records_that_they_have() {
    let counted = |records: &[Record]| {
        let matched = matched(&definition(), records, &Nodes::default());
        (matched.instants, matched.skipped)
    };
    assert_eq!(counted(&all()), (5, 2));
    assert_eq!(counted(&all()[1..3]), (3, 2));
}

#[test]
fn a_skip_without_anything_that_went_on_is_reported() {
    // Each instant skipped, and nothing ever ran.
    let records: Vec<Record> = (1..=5).map(|n| record(2 * n, 2 * n, "skipped")).collect();
    let found = every_two_seconds(&records);
    assert_eq!(found.len(), 5);
    assert!(found.iter().all(|m| matches!(m, Mismatch::Skipped { .. })));
    // A job whose runs may be beside each other.
    let never = Definition {
        skips: false,
        ..definition()
    };
    let found = matched(&never, &all(), &Nodes::default()).mismatches;
    assert!(matches!(found[..], [Mismatch::Skipped { .. }]), "{found:?}");
}

/// One record for each of three nodes at each instant.
fn on_each_node() -> Vec<Record> {
    let instants = (1..=5).map(|n| 2 * n);
    let of = |second: i64| {
        ["n1", "n2", "n3"].map(|node| Record {
            node: Some(node.to_owned()),
            lived_on: [node.to_owned()].into(),
            ..record(second, second, "succeeded")
        })
    };
    instants.flat_map(of).collect()
}

fn each_node(records: &[Record], done: Vec<Done>) -> Vec<Mismatch> {
    let nodes = Nodes {
        timeline: Timeline {
            nodes: ["n1", "n2", "n3"].map(str::to_owned).to_vec(),
            done,
            settled: Duration::from_secs(8),
            ..Timeline::default()
        },
        ..Nodes::default()
    };
    let definition = Definition {
        each_node: true,
        skips: false,
        ..definition()
    };
    matched(&definition, records, &nodes).mismatches
}

/// Of a node, or of the database.
fn trouble(node: Option<&str>, from: i64, to: i64) -> Done {
    let clocks = Clocks::default();
    Done {
        node: node.map(str::to_owned),
        from: clocks.boot(at(from)),
        to: clocks.boot(at(to)),
        lease: Duration::from_secs(3),
        database: node.is_none(),
        what: "killed".to_owned(),
    }
}

#[test]
fn a_node_that_was_well_and_was_given_nothing_is_reported() {
    let mut records = on_each_node();
    assert_eq!(each_node(&records, vec![]), []);
    let gone = records.remove(7);
    assert_eq!((gone.node.as_deref(), gone.first_due), (Some("n2"), at(6)));
    for done in [
        vec![],
        vec![trouble(Some("n1"), 5, 7)],
        vec![trouble(Some("n2"), -20, -3), trouble(Some("n2"), 15, 20)],
    ] {
        let found = each_node(&records, done);
        let [Mismatch::Missing { node, due, .. }] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((node.as_deref(), *due), (Some("n2"), at(6)));
    }
    for hit in [
        trouble(Some("n2"), -20, -1),
        trouble(Some("n2"), 13, 20),
        trouble(None, 5, 6),
    ] {
        assert_eq!(each_node(&records, vec![hit]), []);
    }
}

#[test]
fn a_run_of_one_node_that_lived_on_another_is_reported() {
    let mut records = on_each_node();
    records[4].lived_on = ["n3".to_owned()].into();
    let found = each_node(&records, vec![]);
    assert!(matches!(found[..], [Mismatch::Elsewhere { .. }]), "{found:?}");
}

#[test]
fn an_instant_that_is_skipped_for_all_nodes_has_no_other_outcome() {
    let mut records = on_each_node();
    records.push(record(4, 4, "skipped"));
    let found = each_node(&records, vec![]);
    assert!(matches!(found[..], [Mismatch::Twice { .. }]), "{found:?}");
}

#[test]
fn a_missing_run_is_reported_with_its_neighbours() {
    let mut records = all();
    records.remove(2);
    let found = every_two_seconds(&records);
    let [Mismatch::Missing { due, neighbours, .. }] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((*due, neighbours.len()), (at(8), 4));
}

#[test]
fn extra_double_and_miscounted_records_are_reported() {
    let with = |record: Record| {
        let mut records = all();
        records.push(record);
        every_two_seconds(&records)
    };
    assert!(matches!(
        with(record(7, 7, "succeeded"))[..],
        [Mismatch::Extra { .. }]
    ));
    assert!(matches!(
        with(record(8, 8, "succeeded"))[..],
        [Mismatch::Twice { .. }]
    ));
    let mut records = all();
    records[1].count = 3;
    assert!(matches!(
        every_two_seconds(&records)[..],
        [Mismatch::Miscounted { instants: 2, .. }]
    ));
    records = all();
    records[0].state = "running".to_owned();
    assert!(matches!(
        every_two_seconds(&records)[..],
        [Mismatch::Unfinished { .. }]
    ));
}

fn began(at: Timestamp) -> Option<Began> {
    Some(Began {
        at,
        node: "n2".to_owned(),
        attempt: 1,
    })
}

#[test]
fn what_begins_before_its_time_or_too_late_is_reported() {
    let begun = |after: Duration, before: Duration| {
        let mut records = all();
        records[0].began = began(records[0].first_due + after - before);
        every_two_seconds(&records)
    };
    let (no, soon, late) = (Duration::ZERO, Duration::from_millis(100), Duration::from_secs(6));
    assert_eq!(begun(soon, no), []);
    assert!(matches!(begun(no, soon)[..], [Mismatch::Early { .. }]));
    assert!(matches!(begun(late, no)[..], [Mismatch::Late { .. }]));
    // What waits for something may be late, and not early.
    let waits = Definition {
        waits: true,
        ..definition()
    };
    let mut records = all();
    for (after, before, wrong) in [(late, no, 0), (no, soon, 1)] {
        records[0].began = began(records[0].first_due + after - before);
        let found = matched(&waits, &records, &Nodes::default());
        assert_eq!(
            (found.mismatches.len(), found.begun.len()),
            (wrong, 0),
            "{found:?}"
        );
    }
}

#[test]
fn each_shard_of_an_instant_needs_its_own_outcome_unless_all_were_skipped() {
    let definition = Definition {
        instances: 2,
        ..definition()
    };
    let span = Span {
        from: at(0),
        to: at(4),
        clock_error: Duration::ZERO,
    };
    let second = Record {
        instance: 1,
        ..record(2, 2, "succeeded")
    };
    let whole = record(4, 4, "skipped");
    let records = [record(2, 2, "succeeded"), second, whole.clone()];
    let check = |records: &[Record]| targets::check(&definition, records, &span, &Nodes::default());
    assert_eq!(check(&records).mismatches, []);
    assert_eq!((check(&records).instants, check(&records).skipped), (4, 2));
    let found = check(&[records[0].clone(), whole]).mismatches;
    assert!(
        matches!(found[..], [Mismatch::Missing { instance: 1, .. }]),
        "{found:?}"
    );
}

#[test]
fn a_run_of_a_node_that_will_never_run_it_ends_for_the_reason_that_was_given() {
    let gone = |reason: &str, nodes: &Nodes| {
        let mut records = on_each_node();
        records[0] = Record {
            state: "skipped".to_owned(),
            reason: Some(reason.to_owned()),
            lived_on: BTreeSet::new(),
            ..records[0].clone()
        };
        let definition = Definition {
            each_node: true,
            skips: false,
            ..definition()
        };
        matched(&definition, &records, nodes).mismatches.len()
    };
    let due = on_each_node()[0].first_due;
    let removed = Nodes {
        removed: ["n1".to_owned()].into(),
        ..Nodes::default()
    };
    let relabelled = |at| Nodes {
        relabelled: vec![("n1".to_owned(), at)],
        ..Nodes::default()
    };
    let (before, after) = (due - Duration::from_secs(1), due + Duration::from_secs(3_600));
    for (reason, nodes, wrong) in [
        ("its node was removed", &removed, 0),
        ("its node was removed", &relabelled(before), 1),
        ("the labels of its node changed", &relabelled(before), 0),
        ("the labels of its node changed", &relabelled(after), 1),
        ("the labels of its node changed", &removed, 1),
    ] {
        assert_eq!(gone(reason, nodes), wrong, "{reason}: {nodes:?}");
    }
}

#[test]
fn a_late_instant_beside_a_fault_of_the_database_is_reported_and_one_within_its_bound_is_not() {
    // Due at 2 s, while the database was away from 1 s to 11 s; the first run of anything begins 3 s after it is back.
    let found = |seconds: i64| {
        let mut records = all();
        records[0].began = began(at(seconds));
        let nodes = Nodes {
            timeline: Timeline {
                nodes: vec!["n1".to_owned(), "n2".to_owned()],
                done: vec![trouble(None, 1, 11)],
                begun: vec![Clocks::default().boot(at(14))],
                shortest: Duration::from_secs(3),
                settled: Duration::from_secs(8),
                ..Timeline::default()
            },
            ..Nodes::default()
        };
        matched(&definition(), &records, &nodes).mismatches
    };
    assert_eq!(found(19), []);
    assert!(matches!(found(20)[..], [Mismatch::Late { .. }]));
}

#[test]
fn instants_that_are_made_up_for_one_after_the_other_wait_for_each_other() {
    let late = |after: i64| {
        let mut records = vec![
            record(2, 2, "succeeded"),
            record(4, 4, "succeeded"),
            record(6, 6, "succeeded"),
            record(8, 10, "skipped"),
        ];
        records[0].finished = Some(at(30));
        for (i, record) in records[1..3].iter_mut().enumerate() {
            let begins = 30 + after + 10 * i64::try_from(i).expect("a number");
            record.began = began(at(begins));
            record.finished = Some(at(begins + 10 - after));
        }
        matched(&definition(), &records, &Nodes::default()).mismatches
    };
    assert_eq!(late(1), []);
    let both = late(6);
    assert!(
        matches!(both[..], [Mismatch::Late { .. }, Mismatch::Late { .. }]),
        "{both:?}"
    );
}
