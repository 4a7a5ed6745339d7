//! The scheduler check on records that are forged, and what a plan must be.

use std::time::Duration;

use farmhand_tests::chaos::plan::{Act, Fault, Plan, Shape};
use farmhand_tests::chaos::targets::{self, Definition, Mismatch, Record, Span};
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
    }
}

/// Every two seconds; 1,700,000,000 is an even one.
fn every_two_seconds(records: &[Record]) -> Vec<Mismatch> {
    let definition = Definition {
        job: "tick".to_owned(),
        schedule: "*/2 * * * * *".to_owned(),
        instances: 1,
        each_node: false,
    };
    let span = Span {
        from: at(0),
        to: at(10),
        tolerance: Some(Duration::from_secs(5)),
        clock_error: Duration::from_millis(20),
    };
    targets::check(&definition, records, &span)
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

#[test]
fn what_begins_before_its_time_or_too_late_is_reported() {
    let begun = |after: Duration, before: Duration| {
        let mut records = all();
        records[0].began = Some(records[0].first_due + after - before);
        every_two_seconds(&records)
    };
    let (no, soon, late) = (Duration::ZERO, Duration::from_millis(100), Duration::from_secs(6));
    assert_eq!(begun(soon, no), []);
    assert!(matches!(begun(no, soon)[..], [Mismatch::Early { .. }]));
    assert!(matches!(begun(late, no)[..], [Mismatch::Late { .. }]));
}

#[test]
fn each_shard_of_an_instant_needs_its_own_outcome_unless_all_were_skipped() {
    let definition = Definition {
        job: "tick".to_owned(),
        schedule: "*/2 * * * * *".to_owned(),
        instances: 2,
        each_node: false,
    };
    let span = Span {
        from: at(0),
        to: at(4),
        tolerance: None,
        clock_error: Duration::ZERO,
    };
    let second = Record {
        instance: 1,
        ..record(2, 2, "succeeded")
    };
    let whole = record(4, 4, "skipped");
    let records = [record(2, 2, "succeeded"), second, whole.clone()];
    assert_eq!(targets::check(&definition, &records, &span), []);
    let found = targets::check(&definition, &[records[0].clone(), whole], &span);
    assert!(
        matches!(found[..], [Mismatch::Missing { instance: 1, .. }]),
        "{found:?}"
    );
}

fn shape() -> Shape {
    Shape {
        agents: 5,
        lasts_ms: 3_600_000,
        faults_per_hour: 3_000,
        pgbouncer: false,
        failovers: true,
        listeners: 1_000,
        declared_percent: 3,
        spared: None,
    }
}

#[test]
fn a_plan_follows_from_its_seed_alone_and_is_read_back_as_it_was_written() {
    let plan = Plan::new(7, shape());
    assert_eq!(plan, Plan::new(7, shape()));
    assert_ne!(plan.events, Plan::new(8, shape()).events);
    assert_eq!(Plan::parse(&plan.to_json()), Ok(plan));
}

#[test]
fn an_hour_of_a_plan_has_its_faults_of_every_kind_and_always_leaves_somebody_alone() {
    let plan = Plan::new(7, shape());
    assert!(
        (2_700..3_300).contains(&plan.events.len()),
        "{}",
        plan.events.len()
    );
    // The rarer ones, in declared windows, need more than one hour.
    let hours = (7..12).flat_map(|seed| Plan::new(seed, shape()).events);
    let names: std::collections::BTreeSet<String> = hours.map(|e| e.fault.name()).collect();
    // 26 combinations of kill and stop, three ways to drop packets, and nine others.
    assert_eq!(names.len(), 26 + 3 + 9, "{names:?}");
    for epoch in plan.events.chunk_by(|a, b| a.at_ms / 60_000 == b.at_ms / 60_000) {
        let hit: std::collections::BTreeSet<usize> = epoch.iter().filter_map(|e| e.fault.agent()).collect();
        assert!(hit.len() < 5, "{hit:?}");
    }
}

#[test]
fn what_the_plan_declares_is_the_loss_of_the_guard_with_somebody_else() {
    let plan = Plan::new(7, shape());
    let mut declared = 0;
    for event in &plan.events {
        let Fault::Processes {
            own, warden, guard, ..
        } = event.fault
        else {
            assert!(!event.declared);
            continue;
        };
        let alone = warden == Act::Nothing && own == Act::Nothing;
        assert_eq!(event.declared, guard != Act::Nothing && !alone, "{event:?}");
        declared += usize::from(event.declared);
    }
    assert!(declared > 0);
}
