use super::sample::{Case, NOON, at, check, facts, live, outcome, running};
use super::*;
use crate::definition::Enabled;
use crate::health::NodeState;
use crate::run::RunState;

/// What is changed about the facts above, the gate that holds, and a part of the answer.
const CASES: &[Case] = &[
    (
        "it ran",
        |_, k| k.outcomes = vec![outcome(RunState::Succeeded, None)],
        None,
        "run 5 succeeded",
    ),
    (
        "it failed",
        |_, k| k.outcomes = vec![outcome(RunState::Failed, Some("exit code 3"))],
        None,
        "exit code 3",
    ),
    (
        "calendar skip",
        |_, k| k.outcomes = vec![outcome(RunState::Skipped, Some("calendar"))],
        Some(Gate::Calendar),
        "excluded",
    ),
    (
        "overlap skip",
        |_, k| k.outcomes = vec![outcome(RunState::Skipped, Some("overlap"))],
        Some(Gate::Overlap),
        "had not ended",
    ),
    (
        "missed skip",
        |_, k| k.outcomes = vec![outcome(RunState::Skipped, Some("missed"))],
        Some(Gate::Fired),
        "no agent",
    ),
    (
        "paused skip",
        |_, k| k.outcomes = vec![outcome(RunState::Skipped, Some("paused"))],
        Some(Gate::Paused),
        "paused",
    ),
    (
        "dst skip",
        |_, k| k.outcomes = vec![outcome(RunState::Skipped, Some("dst"))],
        Some(Gate::Dst),
        "clock change",
    ),
    (
        "withdrawn round",
        |_, k| k.outcomes = vec![outcome(RunState::Skipped, Some("withdrawn"))],
        Some(Gate::Fired),
        "before it began",
    ),
    (
        "a continuous job without a round",
        |f, k| (f.at, k.spec.schedule) = (None, vec!["@continuous".to_owned()]),
        Some(Gate::Fired),
        "no round",
    ),
    (
        "a continuous job between rounds",
        |_, k| k.spec.schedule = vec!["@continuous".to_owned()],
        None,
        "job history",
    ),
    (
        "a round that found nothing to do",
        |f, k| {
            let idle = Live {
                ready_at: at("2027-03-10T13:00:20Z"),
                reason: Some("idle".to_owned()),
                ..live(None)
            };
            (f.at, k.live) = (None, vec![idle]);
        },
        Some(Gate::Ready),
        "waits until",
    ),
    (
        "no node skip",
        |_, k| k.outcomes = vec![outcome(RunState::Skipped, Some("no_node"))],
        Some(Gate::Nodes),
        "no node",
    ),
    (
        "before it existed",
        |_, k| k.since = at("2027-03-10T12:30:00Z"),
        Some(Gate::Exists),
        "did not exist",
    ),
    (
        "disabled",
        |_, k| k.spec.enabled = Enabled::No,
        Some(Gate::Enabled),
        "enabled = false",
    ),
    (
        "paused",
        |_, k| {
            k.paused = Some(Paused {
                by: Some("eve".to_owned()),
                at: Some(at("2027-03-01T00:00:00Z")),
                reason: Some("holiday".to_owned()),
            })
        },
        Some(Gate::Paused),
        "by eve: holiday",
    ),
    (
        "not an instant",
        |f, _| f.at = Some(at("2027-03-10T12:00:01Z")),
        Some(Gate::Schedule),
        "the last one before is 2027-03-10T12:00:00Z; the next one is 2027-03-11",
    ),
    (
        "no schedule",
        |f, k| {
            k.spec.schedule.clear();
            k.next_run = None;
            f.at = None
        },
        Some(Gate::Schedule),
        "submitted",
    ),
    (
        "before start",
        |_, k| k.spec.start = Some("2027-04-01T00:00:00Z".to_owned()),
        Some(Gate::Window),
        "before `start`",
    ),
    (
        "after end",
        |_, k| k.spec.end = Some("2027-02-01T00:00:00Z".to_owned()),
        Some(Gate::Window),
        "not before `end`",
    ),
    (
        "calendar today",
        |_, k| {
            k.spec.calendars = vec!["de".to_owned()];
            k.spec.exclude = vec!["2027-03-10".to_owned()];
        },
        Some(Gate::Calendar),
        "calendar de excludes",
    ),
    (
        "second occurrence",
        |f, k| {
            k.spec.schedule = vec!["30 2 * * *".to_owned()];
            k.spec.timezone = "Europe/Berlin".to_owned();
            f.at = Some(at("2027-10-31T01:30:00Z"));
            f.now = at("2027-11-01T00:00:00Z");
        },
        Some(Gate::Dst),
        "clock change",
    ),
    (
        "removed and skipped",
        |f, k| {
            k.spec.schedule = vec!["30 2 * * *".to_owned()];
            k.spec.timezone = "Europe/Berlin".to_owned();
            k.spec.dst = crate::definition::DstPolicy::Skip;
            f.at = Some(at("2027-03-28T01:00:00Z"));
            f.now = at("2027-04-01T00:00:00Z");
        },
        Some(Gate::Dst),
        "clock change",
    ),
    (
        "still to come",
        |f, _| f.at = Some(at("2027-03-12T12:00:00Z")),
        None,
        "still to come",
    ),
    (
        "nobody fires",
        |_, k| k.next_run = Some(at(NOON)),
        Some(Gate::Fired),
        "3600 s after its time",
    ),
    ("record gone", |_, _| {}, Some(Gate::Fired), "its record is gone"),
    (
        "earlier revision",
        |_, k| k.applied_at = at("2027-03-10T12:30:00Z"),
        Some(Gate::Fired),
        "earlier revision",
    ),
    (
        "waits for a run",
        |_, k| {
            let running = Live {
                run_id: 6,
                running_at: Some("n1".to_owned()),
                due_at: at("2027-03-09T12:00:00Z"),
                ..live(None)
            };
            k.live = vec![running, live(Some("overlap"))];
        },
        Some(Gate::Overlap),
        "run 7 waits for run 6 on n1",
    ),
    (
        "waits for a retry",
        |_, k| {
            k.live = vec![Live {
                ready_at: at("2027-03-10T13:05:00Z"),
                reason: Some("exit code 1".to_owned()),
                ..live(None)
            }];
        },
        Some(Gate::Ready),
        "waits until 2027-03-10T13:05:00Z",
    ),
    (
        "no such label",
        |_, k| {
            k.spec.placement = [("role".to_owned(), "db".to_owned())].into();
            k.live = vec![live(None)];
        },
        Some(Gate::Placement),
        "no node has the labels role=db",
    ),
    (
        "cordoned",
        |f, k| {
            f.nodes[0].state = NodeState::Cordoned;
            k.live = vec![live(None)];
        },
        Some(Gate::Nodes),
        "n1 is cordoned",
    ),
    (
        "its machine starts nothing",
        |f, k| {
            f.nodes[0].state = NodeState::Blocked;
            f.nodes[0].cannot_start = Some("fork: Resource temporarily unavailable".to_owned());
            k.live = vec![live(None)];
        },
        Some(Gate::Nodes),
        "n1 is blocked: fork: Resource",
    ),
    (
        "no node at all",
        |f, k| {
            f.nodes.clear();
            k.live = vec![live(None)];
        },
        Some(Gate::Nodes),
        "no node",
    ),
    (
        "its node is gone",
        |_, k| {
            k.live = vec![Live {
                node: Some("n9".to_owned()),
                ..live(None)
            }]
        },
        Some(Gate::Placement),
        "node n9",
    ),
    (
        "slots are full",
        |f, k| {
            f.nodes[0].running = 4;
            k.live = vec![live(None)];
        },
        Some(Gate::Slots),
        "all 4 slots",
    ),
    (
        "failover",
        |f, k| {
            f.claims_open = false;
            k.live = vec![live(None)];
        },
        Some(Gate::Database),
        "claims are closed",
    ),
    (
        "about to be claimed",
        |_, k| k.live = vec![live(None)],
        None,
        "nothing holds it back",
    ),
    (
        "nothing is due",
        |f, _| f.at = None,
        Some(Gate::Schedule),
        "next run at 2027-03-11T12:00:00Z",
    ),
    (
        "running",
        |f, k| {
            f.at = None;
            k.live = vec![running()];
        },
        None,
        "it is running, on n1",
    ),
    (
        "the run in question runs, whatever holds its job",
        |f, k| {
            f.run = Some(7);
            f.nodes[0].state = NodeState::Cordoned;
            k.spec.enabled = Enabled::No;
            let first = Live {
                run_id: 6,
                ..live(None)
            };
            let runs = Live {
                attempt: 2,
                ..running()
            };
            k.live = vec![first, runs];
        },
        None,
        "run 7 runs on n1 since 2027-03-10T12:00:00Z, attempt 2",
    ),
    (
        "the run in question waits, though its job is younger and another of its runs is due",
        |f, k| {
            (f.run, k.spec.enabled, k.since) = (Some(8), Enabled::No, at("2027-03-10T12:30:00Z"));
            let later = Live {
                run_id: 8,
                ready_at: at("2027-03-10T13:05:00Z"),
                ..live(None)
            };
            k.live = vec![live(None), later];
        },
        Some(Gate::Ready),
        "run 8 waits until 2027-03-10T13:05:00Z",
    ),
    (
        "lost for good",
        |_, k| {
            let lost = outcome(RunState::Lost, Some("lease lapsed"));
            k.outcomes = vec![lost];
        },
        None,
        "it ran: run 5 lost: lease lapsed; it is not run again, as on_lost = \"fail\" says",
    ),
    (
        "at boot",
        |f, k| {
            f.at = None;
            k.next_run = None;
            k.spec.schedule = vec!["@reboot".to_owned()];
        },
        Some(Gate::Schedule),
        "boots",
    ),
    (
        "schedule is over",
        |f, k| {
            f.at = None;
            k.next_run = None;
            k.spec.end = Some("2027-02-01T00:00:00Z".to_owned());
        },
        Some(Gate::Window),
        "not before `end`",
    ),
];

#[test]
fn each_closed_gate_is_named_and_explained() {
    check(CASES);
}

#[test]
fn an_unknown_job_is_the_first_gate() {
    let facts = Facts {
        known: None,
        ..facts()
    };
    let explanation = explain(&facts);
    assert_eq!(explanation.held_by, Some(Gate::Exists));
    assert_eq!(explanation.gates.len(), 1);
}

#[test]
fn a_run_that_ended_before_it_was_claimed_never_ran() {
    let mut facts = facts();
    let cancelled = Outcome {
        attempt: 0,
        ..outcome(RunState::Cancelled, Some("cancelled"))
    };
    facts.known.as_mut().unwrap().outcomes = vec![cancelled];
    assert_eq!(explain(&facts).answer, "it never ran: run 5 cancelled");
}
