//! The scheduler check on forged records of jobs that run on each node.

use std::collections::BTreeSet;
use std::time::Duration;

use farmhand_tests::chaos::gather::Clocks;
use farmhand_tests::chaos::nodes::Nodes;
use farmhand_tests::chaos::oracle::Done;
use farmhand_tests::chaos::targets::{Definition, Mismatch, Record};

use super::lateness::farm;
use super::targets::{at, definition, matched, record, trouble};

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

fn for_each_node() -> Definition {
    Definition {
        each_node: true,
        skips: false,
        ..definition()
    }
}

fn each_node(records: &[Record], done: Vec<Done>) -> Vec<Mismatch> {
    let nodes = Nodes {
        timeline: farm(done),
        ..Nodes::default()
    };
    matched(&for_each_node(), records, &nodes).mismatches
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
fn a_run_of_a_node_that_will_never_run_it_ends_for_the_reason_that_was_given() {
    let gone = |reason: &str, nodes: &Nodes| {
        let mut records = on_each_node();
        records[0] = Record {
            state: "skipped".to_owned(),
            reason: Some(reason.to_owned()),
            lived_on: BTreeSet::new(),
            ..records[0].clone()
        };
        matched(&for_each_node(), &records, nodes).mismatches.len()
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
fn a_run_of_an_address_that_was_removed_is_reported_where_that_address_could_have_run_it() {
    let clocks = Clocks::default();
    // The record is that of a removal, a minute after the site had that address for the last time.
    let found = |until: i64, attempts: i32| {
        let mut records = on_each_node();
        records.push(Record {
            node: Some("n2-b".to_owned()),
            reason: Some("its node was removed".to_owned()),
            attempts,
            finished: Some(at(90)),
            ..record(8, 8, "skipped")
        });
        let other = Done {
            other_address: Some([clocks.boot(at(7)), clocks.boot(at(until))]),
            ..trouble(Some("n2"), 6, until + 1)
        };
        let nodes = Nodes {
            timeline: farm(vec![other]),
            removed: ["n2-b".to_owned()].into(),
            ..Nodes::default()
        };
        matched(&for_each_node(), &records, &nodes).mismatches
    };
    assert_eq!(found(18, 0), []);
    assert!(matches!(found(19, 0)[..], [Mismatch::Skipped { .. }]));
    // One that it had claimed and lost had to be claimed again.
    assert_eq!(found(19, 1), []);
}
