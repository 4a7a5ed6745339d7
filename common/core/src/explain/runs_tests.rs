//! What is said of a run, and of the instant that it is for.

use super::sample::{Case, at, check, live, outcome, running};
use super::*;
use crate::definition::Overlap;
use crate::health::NodeState;
use crate::run::RunState;

fn skipped_and_live(known: &mut Known) {
    let made = Outcome {
        run_id: 7,
        ..outcome(RunState::Due, None)
    };
    known.outcomes = vec![outcome(RunState::Skipped, Some("paused")), made];
    known.live = vec![live(None)];
}

const CASES: &[Case] = &[
    (
        "lost with its node, whatever on_lost says",
        |_, k| k.outcomes = vec![outcome(RunState::Lost, Some("its node is gone"))],
        None,
        "run 5 lost: its node is gone; no other node may run it",
    ),
    (
        "an instant of a pause that is made up for",
        |f, k| {
            skipped_and_live(k);
            f.nodes[0].running = 4;
        },
        Some(Gate::Slots),
        "all 4 slots of these nodes are taken",
    ),
    (
        "a run made for each node waits for the one on its own",
        |f, k| {
            k.spec.overlap = Overlap::Queue;
            f.run = Some(7);
            let on = |node: &str, run_id, gate| Live {
                run_id,
                node: Some(node.to_owned()),
                running_at: None,
                ..live(gate)
            };
            let mut later = on("n1", 8, None);
            later.overlaps = false;
            k.live = vec![
                on("n2", 5, None),
                on("n1", 6, None),
                on("n1", 7, Some("overlap")),
                later,
            ];
        },
        Some(Gate::Overlap),
        "run 7 waits for run 6",
    ),
    (
        "made before the job was bound to nodes that are not there",
        |_, k| {
            k.live = vec![live(None)];
            k.made_from = Some(k.spec.clone());
            k.spec.placement = serde_json::from_str(r#"{"zone": "z"}"#).unwrap();
        },
        None,
        "nothing holds it back",
    ),
    (
        "one of two shards failed",
        |_, k| {
            let failed = Outcome {
                run_id: 6,
                ..outcome(RunState::Failed, Some("exit code 3"))
            };
            k.outcomes = vec![outcome(RunState::Succeeded, None), failed];
        },
        None,
        "run 6 failed",
    ),
    (
        "one of two shards waits",
        |f, k| {
            let due = Outcome {
                run_id: 7,
                ..outcome(RunState::Due, None)
            };
            k.outcomes = vec![outcome(RunState::Succeeded, None), due];
            k.live = vec![live(None)];
            f.nodes[0].running = 4;
        },
        Some(Gate::Slots),
        "all 4 slots",
    ),
    (
        "what was made before a pause waits for a slot, and not for the end of the pause",
        |f, k| {
            k.paused = Some(Paused {
                by: None,
                at: None,
                reason: None,
            });
            k.live = vec![live(None)];
            f.nodes[0].running = 4;
        },
        Some(Gate::Slots),
        "all 4 slots",
    ),
    (
        "its node's lease is over, and somebody withholds it",
        |f, k| {
            (f.nodes[0].state, f.nodes[0].by) = (NodeState::Expired, Some("anna".to_owned()));
            k.live = vec![live(None)];
        },
        Some(Gate::Nodes),
        "n1 is expired, and withheld by anna",
    ),
    (
        "its job is asked about, and the only node that may run it takes no more",
        |f, k| {
            (f.at, f.nodes[0].state) = (None, NodeState::Draining);
            k.spec.schedule.clear();
            k.live = vec![running()];
        },
        None,
        "it is running, on n1",
    ),
    (
        "claimed, and not started",
        |_, k| {
            k.live = vec![Live {
                started_at: None,
                ..running()
            }]
        },
        None,
        "run 7 was claimed by n1 at 2027-03-10T12:00:00Z and has not started, attempt 1",
    ),
    (
        "its job is asked about, and its run has not started",
        |f, k| {
            f.at = None;
            k.live = vec![Live {
                started_at: None,
                ..running()
            }];
        },
        None,
        "run 7 was claimed by n1 at 2027-03-10T12:00:00Z and has not started, attempt 1",
    ),
    (
        "the next instant is on a day that its calendar excludes",
        |f, k| {
            f.at = None;
            k.spec.calendars = vec!["off".to_owned()];
            k.spec.exclude = vec!["2027-03-11".to_owned()];
        },
        Some(Gate::Calendar),
        "the first after it is 2027-03-12T12:00:00Z",
    ),
];

#[test]
fn a_run_is_told_by_what_it_is() {
    check(CASES);
}

/// The node of the run in question is dead, and n2 is ready.
fn dead(f: &mut Facts, k: &mut Known, run: Live) {
    let other = Node {
        address: "n2".to_owned(),
        ..f.nodes[0].clone()
    };
    f.nodes.push(other);
    f.nodes[0].state = NodeState::Expired;
    k.live = vec![run];
}

const DEAD: &[Case] = &[
    (
        "another node is ready",
        |f, k| dead(f, k, running()),
        None,
        "run 7 started on n1 at 2027-03-10T12:00:00Z, attempt 1; the lease of its node is over: another node takes it over",
    ),
    (
        "no other node is ready",
        |f, k| {
            dead(f, k, running());
            f.nodes[1].state = NodeState::Cordoned;
        },
        None,
        "the lease of its node is over: it waits until a node that may run it is ready",
    ),
    (
        "it may not be run twice",
        |f, k| {
            let if_lost = RunState::Lost;
            dead(f, k, Live { if_lost, ..running() });
        },
        None,
        "the lease of its node is over: it is recorded as lost, as on_lost = \"fail\" says",
    ),
    (
        "it was taken over too often",
        |f, k| {
            let if_lost = RunState::Failed;
            dead(f, k, Live { if_lost, ..running() });
        },
        None,
        "the lease of its node is over: it fails, as it was taken over five times before",
    ),
    (
        "its cancellation was requested",
        |f, k| {
            let if_lost = RunState::Cancelled;
            dead(f, k, Live { if_lost, ..running() });
        },
        None,
        "the lease of its node is over: it is cancelled, as was requested",
    ),
    (
        "it was made for its node",
        |f, k| {
            let node = Some("n1".to_owned());
            dead(f, k, Live { node, ..running() });
        },
        None,
        "the lease of its node is over: it waits for n1, the only node that may run it",
    ),
    (
        "its job is bound to its node",
        |f, k| {
            dead(f, k, running());
            k.spec.placement = [("rack".to_owned(), "1".to_owned())].into();
            f.nodes[0].labels.insert("rack".to_owned(), "1".to_owned());
        },
        None,
        "the lease of its node is over: it waits for n1, the only node that may run it",
    ),
    (
        "its job is asked about",
        |f, k| {
            f.at = None;
            dead(f, k, running());
        },
        None,
        "the lease of its node is over: another node takes it over",
    ),
];

#[test]
fn what_becomes_of_a_run_whose_node_is_dead_is_said() {
    check(DEAD);
}

/// The session that claimed the run in question has ended.
fn ended(f: &mut Facts, k: &mut Known) {
    dead(f, k, running());
    f.nodes[0].session = 2;
    (f.nodes[0].state, f.nodes[0].lost_at) = (NodeState::Lost, Some(at("2027-03-10T12:40:00Z")));
}

const ENDED: &[Case] = &[
    (
        "by another node",
        ended,
        None,
        "run 7 started on n1 at 2027-03-10T12:00:00Z, attempt 1; the session of its node ended at 2027-03-10T12:40:00Z: \
         another node takes it over",
    ),
    (
        "and its node has a new one",
        |f, k| {
            ended(f, k);
            (f.nodes[0].state, f.nodes[0].lost_at) = (NodeState::Ready, None);
        },
        None,
        "attempt 1; the session of its node is over: another node takes it over",
    ),
    (
        "and only its node may run it",
        |f, k| {
            ended(f, k);
            (f.nodes[0].state, f.nodes[0].lost_at) = (NodeState::Ready, None);
            k.live[0].node = Some("n1".to_owned());
        },
        None,
        "n1 takes it over",
    ),
    (
        "and its job is asked about",
        |f, k| {
            ended(f, k);
            f.at = None;
        },
        None,
        "run 7 started on n1 at 2027-03-10T12:00:00Z, attempt 1; the session of its node ended",
    ),
    (
        "before it started",
        |f, k| {
            ended(f, k);
            k.live[0].started_at = None;
        },
        None,
        "run 7 was claimed by n1 at 2027-03-10T12:00:00Z and has not started, attempt 1; the session of its node ended",
    ),
];

#[test]
fn a_run_whose_session_has_ended_is_held_and_does_not_run() {
    check(ENDED);
}
