//! The bounds on lateness themselves, on faults that are forged: each one grows by what was down, and by nothing else.

use std::time::Duration;

use farmhand_tests::chaos::lateness::{Beginning, Timed, Timeline, is_held_up, quarters};
use farmhand_tests::chaos::oracle::Done;

const MS: u64 = 1_000_000;
const MILLISECOND: Duration = Duration::from_millis(1);

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
        other_address: None,
        what: "killed".to_owned(),
    }
}

/// Three nodes to which this was done.
pub fn farm(done: Vec<Done>) -> Timeline {
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

/// A site that has its other address in these times, and 500 ms before and after them none.
fn other_address(times: &[[i64; 2]]) -> Vec<Done> {
    let had = |[from, to]: &[i64; 2]| Done {
        other_address: Some([*from, *to].map(|ms| (100_000 + ms) as u64 * MS)),
        ..hit("n2", from - 500, to + 500, 3)
    };
    times.iter().map(had).collect()
}

#[test]
fn a_run_of_an_address_that_its_node_has_for_a_while_waits_until_it_has_it_again() {
    let of_other = Beginning {
        node: "n2-b",
        bound: true,
        ..due(0)
    };
    // It had that until a moment before, and has it again after 14 minutes.
    let (before, again) = ([-11_000, -1_000], [840_000, 854_000]);
    let twice = other_address(&[before, again]);
    assert_eq!(bound(&farm(twice.clone()), &of_other), 840_000 + 10_300);
    // Not when it has that for too short a time, or when something is done to it meanwhile, or to the database.
    let third = [900_000, 911_000];
    let then = |hit: Option<Done>, second: [i64; 2]| {
        let mut done = other_address(&[before, second, third]);
        done.extend(hit);
        bound(&farm(done), &of_other)
    };
    assert_eq!(then(None, again), 840_000 + 10_300);
    assert_eq!(then(None, [840_000, 850_200]), 900_000 + 10_300);
    for disturbs in [hit("n2", 841_000, 841_100, 3), hit("", 841_000, 841_100, 0)] {
        assert_eq!(then(Some(disturbs), again), 900_000 + 10_300);
    }
    assert_eq!(
        then(Some(hit("n1", 841_000, 841_100, 3)), again),
        840_000 + 10_300
    );
    // What was due while it was there had to begin then.
    let at_once = Beginning {
        due: 89_500 * MS,
        ..of_other
    };
    let longer = other_address(&[[-11_000, 1_000], again]);
    assert_eq!(bound(&farm(longer), &at_once), 10_300);
    // It never was there for long enough: nothing can be said.
    let never = farm(other_address(&[before]));
    assert_eq!(never.begins_by(&of_other), u64::MAX);
    // Under its own address it is hit for as long as it has another one.
    let own = Beginning {
        node: "n2",
        ..of_other
    };
    let soon = other_address(&[[500, 14_500]]);
    assert_eq!(bound(&farm(soon), &own), 15_000 + 8_000 + 10_300);
}

#[test]
fn what_took_longer_than_its_bound_is_late_and_the_closest_to_its_bound_is_told() {
    let timed = |took: u64, within: u64| Timed::new(10 * MS, (10 + took) * MS, (10 + within) * MS);
    assert!(timed(5_301, 5_300).is_late() && !timed(5_300, 5_300).is_late());
    let all = [timed(4_000, 5_300), timed(20_000, 45_000), timed(100, 10_300)];
    assert_eq!(Timed::closest(all), Some(all[0]));
    assert_eq!(Timed::closest([]), None);
}

/// What was claimed before a failover begins after it when its warden is no longer frozen: claims may be closed.
#[test]
fn a_beginning_on_a_node_that_was_just_hit_does_not_show_that_claims_are_open() {
    let done = [hit("n2", -5_000, 8_000, 3), hit("", 0, 1_000, 30)];
    let held_up = |node, ms: u64| is_held_up(&done, node, (100_000 + ms) * MS);
    assert!(held_up("n2", 8_100) && !held_up("n1", 8_100));
    assert!(!held_up("n2", 11_000), "it was claimed since");
}

#[test]
fn a_soak_says_where_starts_became_later() {
    let timed = |from: u64, took: u64| Timed::new(from * MS, (from + took) * MS, (from + 5_300) * MS);
    let steady: Vec<Timed> = (0..400).map(|n| timed(1_000 + n * 100, 20)).collect();
    assert_eq!(quarters(&steady), [(20 * MILLISECOND, 20 * MILLISECOND); 4]);
    let slower: Vec<Timed> = (0..400)
        .map(|n| timed(1_000 + n * 100, if n < 300 { 20 } else { 20 + n }))
        .collect();
    assert_eq!(
        quarters(&slower)[2..],
        [
            (20 * MILLISECOND, 20 * MILLISECOND),
            (369 * MILLISECOND, 418 * MILLISECOND)
        ]
    );
    assert_eq!(quarters(&[]), [(Duration::ZERO, Duration::ZERO); 4]);
}
