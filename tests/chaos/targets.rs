//! The scheduler check on records that are forged.

use std::collections::BTreeSet;
use std::time::Duration;

use farmhand_tests::chaos::gather::Clocks;
use farmhand_tests::chaos::lateness::Timeline;
use farmhand_tests::chaos::nodes::Nodes;
use farmhand_tests::chaos::oracle::Done;
use farmhand_tests::chaos::targets::{self, Began, Definition, Matched, Mismatch, Record, Span};
use jiff::Timestamp;

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("a time")
}

pub fn record(from: i64, to: i64, state: &str) -> Record {
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
        attempts: 1,
        lived_on: BTreeSet::new(),
        finished: (state != "skipped").then(|| at(to + 1)),
    }
}

pub fn definition() -> Definition {
    Definition {
        job: "tick".to_owned(),
        schedule: "*/2 * * * * *".to_owned(),
        instances: 1,
        each_node: false,
        skips: true,
        placed: false,
        waits: false,
    }
}

/// Every two seconds; 1,700,000,000 is an even one.
fn every_two_seconds(records: &[Record]) -> Vec<Mismatch> {
    matched(&definition(), records, &Nodes::default()).mismatches
}

pub fn matched(definition: &Definition, records: &[Record], nodes: &Nodes) -> Matched {
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

/// Of a node, or of the database.
pub fn trouble(node: Option<&str>, from: i64, to: i64) -> Done {
    let clocks = Clocks::default();
    Done {
        node: node.map(str::to_owned),
        from: clocks.boot(at(from)),
        to: clocks.boot(at(to)),
        lease: Duration::from_secs(3),
        database: node.is_none(),
        other_address: None,
        what: "killed".to_owned(),
    }
}

/// A farm's machine slewed its wall clock by a tenth of a second while a plan went on: ends recorded before that seemed to come
/// before the ends that were seen.
#[test]
fn instants_are_told_by_the_wall_clock_as_it_was_at_their_time() {
    const SECOND: u64 = 1_000_000_000;
    let mut clocks = Clocks::default();
    for (second, booted_ms) in [(10, 0), (11, 0), (20, 120), (30, -3000)] {
        clocks.note(second * SECOND, 1_700_000_000_000_000_000 + booted_ms * 1_000_000);
    }
    let of = |second: u64, ms: i64| {
        Timestamp::from_millisecond(1_700_000_000_000 + second.cast_signed() * 1000 + ms)
    };
    for (second, ms) in [(5, 0), (15, 0), (25, 120), (35, -3000)] {
        let wall = of(second, ms).expect("this millennium");
        assert_eq!(clocks.wall(second * SECOND), wall, "{second}");
        assert_eq!(clocks.boot(wall), second * SECOND, "{second}");
    }
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
