//! What is said of a run, and of the instant that it is for.

use super::sample::{Case, check, live, outcome};
use super::*;
use crate::definition::Overlap;

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
            k.live = vec![Live {
                running_at: Some("n1".to_owned()),
                ..live(None)
            }];
        },
        None,
        "it is running, on n1",
    ),
    (
        "its node is dead",
        |f, k| {
            f.nodes[0].state = NodeState::Expired;
            k.live = vec![Live {
                running_at: Some("n1".to_owned()),
                ..live(None)
            }];
        },
        None,
        "runs on n1, attempt 0, whose lease is over",
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
