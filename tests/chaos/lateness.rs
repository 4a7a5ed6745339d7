//! The bounds on lateness themselves, on faults that are forged: each one grows by what was down, and by nothing else.

use std::time::Duration;

use farmhand_tests::chaos::lateness::{Beginning, Timed, Timeline};
use farmhand_tests::chaos::oracle::Done;

const MS: u64 = 1_000_000;

/// Milliseconds after the instant until which its run may begin.
fn bound(timeline: &Timeline, run: &Beginning) -> u64 {
    (timeline.begins_by(run) - run.due) / MS
}

fn due(lost: usize) -> Beginning<'static> {
    Beginning {
        due: 100_000 * MS,
        node: "n2",
        bound: false,
        lost,
        hold: Duration::ZERO,
    }
}

/// Milliseconds after the instant.
fn hit(node: &str, from: i64, to: i64, lease: u64) -> Done {
    let at = |ms: i64| (100_000 + ms) as u64 * MS;
    Done {
        from: at(from),
        to: at(to),
        node: (!node.is_empty()).then(|| node.to_owned()),
        lease: Duration::from_secs(lease),
        database: node.is_empty(),
        what: "killed".to_owned(),
    }
}

fn farm(done: Vec<Done>) -> Timeline {
    Timeline {
        nodes: ["n1", "n2", "n3"].map(str::to_owned).to_vec(),
        done,
        shortest: Duration::from_secs(3),
        settled: Duration::from_secs(8),
        ..Timeline::default()
    }
}

#[test]
fn a_farm_that_nothing_is_done_to_has_the_time_of_one_takeover() {
    assert_eq!(bound(&farm(vec![]), &due(0)), 5_300);
    // What was over long before, and what begins later, changes nothing.
    let others = vec![hit("n1", -20_000, -19_000, 3), hit("n3", 5_400, 9_000, 30)];
    assert_eq!(bound(&farm(others), &due(0)), 5_300);
    // All of its agents poll as seldom as their leases allow.
    let slower = Timeline {
        shortest: Duration::from_secs(10),
        ..farm(vec![])
    };
    assert_eq!(bound(&slower, &due(0)), 13_000);
    let busy = Timeline {
        tolerance: Duration::from_secs(2),
        ..farm(vec![])
    };
    assert_eq!(bound(&busy, &due(0)), 7_300);
}

#[test]
fn a_node_that_is_hit_costs_what_its_silent_transaction_holds_and_not_its_lease() {
    assert_eq!(bound(&farm(vec![hit("n1", 100, 60_000, 30)]), &due(0)), 10_300);
}

#[test]
fn an_attempt_that_left_no_line_costs_the_takeover_of_a_node_that_was_hit() {
    let of = |lease: u64, lost: usize| bound(&farm(vec![hit("n1", 100, 60_000, lease)]), &due(lost));
    assert_eq!([of(3, 1), of(30, 1), of(3, 2)], [15_600, 45_300, 20_900]);
    // None was hit: nothing took it away.
    assert_eq!(bound(&farm(vec![]), &due(1)), 5_300);
    let held = Beginning {
        hold: Duration::from_secs(4),
        ..due(1)
    };
    assert_eq!(bound(&farm(vec![hit("n1", 100, 60_000, 3)]), &held), 23_600);
}

#[test]
fn what_a_node_held_that_was_hit_begins_when_it_is_back() {
    let twice = vec![hit("n2", 100, 12_000, 30), hit("n2", 13_000, 20_000, 30)];
    assert_eq!(bound(&farm(twice), &due(0)), 25_300);
    // It was back for long enough in between.
    let apart = vec![hit("n2", 100, 12_000, 30), hit("n2", 17_400, 20_000, 30)];
    assert_eq!(bound(&farm(apart), &due(0)), 17_300);
}

#[test]
fn an_outage_of_the_database_costs_its_length_and_the_way_back() {
    // Frozen: connections are given up after 10 s and 2 s.
    let frozen = vec![hit("", -3_000, 4_000, 0)];
    assert_eq!(bound(&farm(frozen), &due(0)), 4_000 + 12_000 + 5_300);
    // Another server: claims wait for the longest lease.
    let replaced = farm(vec![hit("", -3_000, 4_000, 30)]);
    assert_eq!(bound(&replaced, &due(0)), 4_000 + 45_000 + 5_300);
    // But no longer than until something begins.
    let open = |ms: u64| Timeline {
        begun: vec![
            (100_000 - 5_000) * MS,
            (100_000 + 5_000) * MS,
            (100_000 + ms) * MS,
        ],
        ..replaced.clone()
    };
    assert_eq!(bound(&open(9_000), &due(0)), 14_300);
    // A second outage before that counts too, and one after it does not.
    let again = |from: i64| {
        let mut timeline = open(9_000);
        timeline.done.push(hit("", from, from + 1_000, 0));
        bound(&timeline, &due(0))
    };
    assert_eq!([again(14_000), again(14_400)], [32_300, 14_300]);
}

#[test]
fn a_farm_of_which_no_node_is_well_may_wait_for_the_first_that_is() {
    let all = |n2: i64| {
        farm(vec![
            hit("n1", -100, 60_000, 3),
            hit("n2", -100, n2, 3),
            hit("n3", -100, 30_000, 30),
        ])
    };
    let elsewhere = Beginning { node: "n4", ..due(0) };
    assert_eq!(bound(&all(20_000), &elsewhere), 20_000 + 8_000 + 10_300);
    // One with a longer lease may have to wait for the end of that.
    assert_eq!(bound(&all(90_000), &elsewhere), 30_000 + 35_000 + 10_300);
}

#[test]
fn a_run_of_one_node_waits_for_that_node_alone() {
    let of_one = Beginning {
        bound: true,
        ..due(0)
    };
    assert_eq!(
        bound(&farm(vec![hit("n2", 100, 2_000, 3)]), &of_one),
        2_000 + 8_000 + 10_300
    );
    let others = vec![hit("n1", 100, 60_000, 3), hit("n3", 100, 60_000, 3)];
    assert_eq!(bound(&farm(others), &of_one), 10_300);
}

#[test]
fn what_took_longer_than_its_bound_is_late_and_the_closest_to_its_bound_is_told() {
    let timed = |took: u64, within: u64| Timed::new(10 * MS, (10 + took) * MS, (10 + within) * MS);
    assert!(timed(5_301, 5_300).is_late() && !timed(5_300, 5_300).is_late());
    let all = [timed(4_000, 5_300), timed(20_000, 45_000), timed(100, 10_300)];
    assert_eq!(Timed::closest(all), Some(all[0]));
    assert_eq!(Timed::closest([]), None);
}
