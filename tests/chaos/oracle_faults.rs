//! The oracle on faults that follow each other on one node.

use std::time::Duration;

use farmhand_tests::chaos::oracle::{Broken, Done, Takeover, check};
use farmhand_tests::witness::What;

use super::oracle::{
    SECOND, done, found, later, line, of_run, of_run_2, sound, took, two_lives, two_seconds_later, window,
};

fn stopped(node: &str, from: u64, to: u64) -> Done {
    Done {
        what: "stop agent".to_owned(),
        ..done(node, from, to)
    }
}

#[test]
fn a_window_is_open_until_the_agent_that_sweeps_has_been_back_undisturbed() {
    // The window would have been over before the line.
    let mut history = two_lives();
    history.windows.push(window("n1", 1000, 1050));
    assert_eq!(found(&check(&history)), [Broken::TwoLives]);
    for (disturbs, excused) in [
        (stopped("n1", 1040, 1045), true),
        (stopped("n1", 1051, 1100), false),
        (stopped("n2", 1040, 1100), false),
        (done("n1", 1040, 1100), false),
    ] {
        let mut history = history.clone();
        history.done.push(disturbs.clone());
        assert_eq!(found(&check(&history)).is_empty(), excused, "{disturbs:?}");
    }
    // Four seconds after the agent is back it is over.
    history.windows[0].to = window("n1", 0, 1010).to;
    history.done.push(stopped("n1", 1008, 1015));
    assert_eq!(found(&check(&history)), [Broken::TwoLives]);
}

#[test]
fn a_takeover_is_timed_anew_when_its_node_came_back_and_was_hit_again() {
    let late = two_seconds_later(sound());
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
    let mut again = late.clone();
    again.done.push(stopped("n1", 1040, 1080));
    let verdict = check(&again);
    assert_eq!(
        (found(&verdict), took(&verdict)),
        (vec![], vec![Duration::from_millis(6500)])
    );
    assert_eq!(found(&check(&later(again, 3 * SECOND))), [Broken::LateTakeover]);
    // Back for longer than it needs: it has said itself what it had lost.
    let mut back = late.clone();
    back.done[0].to = back.done[0].from + SECOND / 10;
    back.done[0].lease = Duration::from_secs(10);
    let mut back = later(back, 8 * SECOND);
    assert_eq!(found(&check(&back)), [Broken::LateTakeover]);
    back.done.push(Done {
        lease: Duration::from_secs(10),
        ..stopped("n1", 1080, 1090)
    });
    assert_eq!(found(&check(&back)), []);
    back.done[1].from = 1100 * SECOND / 10;
    assert_eq!(found(&check(&back)), [Broken::LateTakeover]);
    // On another node, or when the time was over, it changes nothing.
    for other in [stopped("n3", 1040, 1080), stopped("n1", 1059, 1080)] {
        let mut history = late.clone();
        history.done.push(other);
        assert_eq!(found(&check(&history)), [Broken::LateTakeover]);
    }
}

#[test]
fn a_takeover_may_take_as_long_as_the_lease_of_its_node_says() {
    // 5.9 s after the kill: too late for a lease of 3 s.
    let mut late = two_seconds_later(sound());
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
    late.done[0].lease = Duration::from_secs(10);
    let verdict = check(&late);
    assert_eq!((found(&verdict), verdict.takeovers.len()), (vec![], 1));
}

#[test]
fn who_had_a_long_lease_is_well_again_after_its_takeover_only() {
    let mut late = two_seconds_later(sound());
    // The two others were hit nine seconds before; with long leases they may still be on their way back.
    late.done.extend([done("n2", 905, 910), done("n3", 905, 910)]);
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
    for done in &mut late.done[1..] {
        done.lease = Duration::from_secs(10);
    }
    assert_eq!(found(&check(&late)), []);
}

#[test]
fn a_site_that_has_another_address_for_a_while_is_the_same_site() {
    let mut late = two_seconds_later(sound());
    for line in late.lines.iter_mut().filter(|line| line.node == "n1") {
        line.node = "n1-b".to_owned();
    }
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
}

#[test]
fn a_takeover_may_wait_until_who_took_it_over_is_back() {
    let late = two_seconds_later(sound());
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
    let mut hit = late.clone();
    hit.done.push(stopped("n2", 1040, 1055));
    assert_eq!(found(&check(&hit)), []);
    assert_eq!(found(&check(&later(hit, 4 * SECOND))), [Broken::LateTakeover]);
    // Before the fault, or after the next attempt had begun, it changes nothing.
    for other in [stopped("n2", 1000, 1003), stopped("n2", 1075, 1080)] {
        let mut history = late.clone();
        history.done.push(other);
        assert_eq!(found(&check(&history)), [Broken::LateTakeover]);
    }
    // One attempt in between left no line.
    let mut without = late;
    for line in without.lines.iter_mut().filter(|line| line.attempt == 2) {
        (line.attempt, line.fence) = (3, 30);
    }
    without.rows[0].attempt = 3;
    without.rows[0].fence = Some(30);
    assert_eq!(found(&check(&without)), []);
    for line in without.lines.iter_mut().filter(|line| line.attempt == 3) {
        line.at += 5 * SECOND;
    }
    without.rows[0].finished_at = without.rows[0].finished_at.map(|at| at + 5 * SECOND);
    assert_eq!(found(&check(&without)), [Broken::LateTakeover]);
}

#[test]
fn a_takeover_that_comes_late_is_seen_where_somebody_could_have() {
    let mut late = two_seconds_later(sound());
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
    let mut nobody = late.clone();
    nobody.done.extend([done("n2", 980, 990), done("n3", 1020, 1030)]);
    assert_eq!(found(&check(&nobody)), []);
    // Until one of them had been well for long enough.
    let nobody = later(nobody, 6 * SECOND);
    assert_eq!(found(&check(&nobody)), [Broken::LateTakeover]);
    let mut away = late.clone();
    away.done.push(Done {
        node: None,
        database: true,
        ..done("", 1020, 1030)
    });
    assert_eq!(found(&check(&away)), []);
    // Claims had been open since another run began.
    away.lines.push(of_run(2, line(What::Start, 1055, 1, "n3")));
    away.lines.push(of_run(2, line(What::End, 1080, 1, "n3")));
    away.rows.push(of_run_2());
    assert_eq!(found(&check(&away)), []);
    let away = later(away, 5 * SECOND);
    assert_eq!(found(&check(&away)), [Broken::LateTakeover]);
    late.takeover = late.takeover.map(|t| Takeover {
        tolerance: Duration::from_secs(3),
        ..t
    });
    assert_eq!(found(&check(&late)), []);
}
