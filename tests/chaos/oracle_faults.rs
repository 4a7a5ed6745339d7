//! The oracle on faults that follow each other on one node.

use farmhand_tests::chaos::oracle::{Broken, Done, check};

use super::oracle::{done, found, sound, two_lives, two_seconds_later, window};

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
fn a_takeover_is_not_judged_when_its_node_came_back_and_was_hit_again() {
    let late = two_seconds_later(sound());
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
    let mut again = late.clone();
    again.done.push(stopped("n1", 1040, 1080));
    let verdict = check(&again);
    assert_eq!((found(&verdict), verdict.takeovers), (vec![], vec![]));
    // On another node, or when the time was over, it changes nothing.
    for other in [stopped("n3", 1040, 1080), stopped("n1", 1059, 1080)] {
        let mut history = late.clone();
        history.done.push(other);
        assert_eq!(found(&check(&history)), [Broken::LateTakeover]);
    }
}
