//! The scheduler check on records that are forged, and what a plan must be.

use std::collections::BTreeSet;
use std::time::Duration;

use farmhand_tests::chaos::plan::{Act, Fault, Plan, Shape};
use farmhand_tests::chaos::targets::{self, Definition, Matched, Mismatch, Nodes, Record, Span, Trouble};
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
        tolerance: Some(Duration::from_secs(5)),
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

fn each_node(records: &[Record], troubles: Vec<Trouble>) -> Vec<Mismatch> {
    let nodes = Nodes {
        names: ["n1", "n2", "n3"].map(str::to_owned).to_vec(),
        troubles,
        settled: Duration::from_secs(8),
    };
    let definition = Definition {
        each_node: true,
        skips: false,
        ..definition()
    };
    matched(&definition, records, &nodes).mismatches
}

fn trouble(node: Option<&str>, from: i64, to: i64) -> Trouble {
    Trouble {
        node: node.map(str::to_owned),
        from: at(from),
        to: at(to),
    }
}

#[test]
fn a_node_that_was_well_and_was_given_nothing_is_reported() {
    let mut records = on_each_node();
    assert_eq!(each_node(&records, vec![]), []);
    let gone = records.remove(7);
    assert_eq!((gone.node.as_deref(), gone.first_due), (Some("n2"), at(6)));
    for troubles in [
        vec![],
        vec![trouble(Some("n1"), 5, 7)],
        vec![trouble(Some("n2"), -20, -3), trouble(Some("n2"), 15, 20)],
    ] {
        let found = each_node(&records, troubles);
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
        instances: 2,
        ..definition()
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
    let check = |records: &[Record]| targets::check(&definition, records, &span, &Nodes::default());
    assert_eq!(check(&records).mismatches, []);
    assert_eq!((check(&records).instants, check(&records).skipped), (4, 2));
    let found = check(&[records[0].clone(), whole]).mismatches;
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
