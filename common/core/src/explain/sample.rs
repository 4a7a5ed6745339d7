//! Facts that the tests change one by one.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::*;
use crate::definition::{Command, JobSpec};
use crate::health::NodeState;
use crate::run::RunState;

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) const NOON: &str = "2027-03-10T12:00:00Z";

/// A job that fires daily at noon; now is one o'clock, one node is ready and has room.
pub(super) fn facts() -> Facts {
    Facts {
        job: "j".to_owned(),
        now: at("2027-03-10T13:00:00Z"),
        at: Some(at(NOON)),
        run: None,
        known: Some(Known {
            spec: JobSpec {
                schedule: vec!["0 12 * * *".to_owned()],
                command: Some(Command::Shell("true".to_owned())),
                ..JobSpec::default()
            },
            made_from: None,
            since: at("2027-01-01T00:00:00Z"),
            applied_at: at("2027-01-01T00:00:00Z"),
            paused: None,
            next_run: Some(at("2027-03-11T12:00:00Z")),
            decided_until: Some(at(NOON)),
            outcomes: Vec::new(),
            live: Vec::new(),
            needed: None,
            triggers: Vec::new(),
            waiting: Vec::new(),
        }),
        nodes: vec![Node {
            address: "n1".to_owned(),
            state: NodeState::Ready,
            session: 1,
            lost_at: None,
            slots: 4,
            running: 0,
            labels: BTreeMap::new(),
            since: None,
            by: None,
            cannot_start: None,
        }],
        claims_open: true,
    }
}

pub(super) fn live(gate: Option<&str>) -> Live {
    Live {
        run_id: 7,
        rev: 1,
        due_at: at(NOON),
        ready_at: at(NOON),
        created_at: at(NOON),
        gate: gate.map(str::to_owned),
        reason: None,
        running_at: None,
        claimed_at: None,
        started_at: None,
        session: None,
        if_lost: RunState::Due,
        attempt: 0,
        node: None,
        overlaps: true,
    }
}

/// A run that n1 runs in its present session.
pub(super) fn running() -> Live {
    Live {
        running_at: Some("n1".to_owned()),
        claimed_at: Some(at(NOON)),
        started_at: Some(at(NOON)),
        session: Some(1),
        attempt: 1,
        ..live(None)
    }
}

pub(super) fn outcome(state: RunState, reason: Option<&str>) -> Outcome {
    Outcome {
        run_id: 5,
        state,
        reason: reason.map(str::to_owned),
        first_due: at(NOON),
        finished_at: Some(at(NOON)),
        running_at: None,
        attempt: 1,
    }
}

/// Run 4 has what [`live`] needs.
pub(super) fn held(pool: Option<&str>, node_pool: Option<&str>, locks: &[&str]) -> Held {
    Held {
        run_id: 4,
        job_id: "other".to_owned(),
        node: "n1".to_owned(),
        since: at("2027-03-10T12:30:00Z"),
        pool: pool.map(str::to_owned),
        node_pool: node_pool.map(str::to_owned),
        locks: locks.iter().map(|l| (*l).to_owned()).collect(),
    }
}

/// A name, what is changed about [`facts`], the gate that holds, and a part of the answer.
pub(super) type Case = (
    &'static str,
    fn(&mut Facts, &mut Known),
    Option<Gate>,
    &'static str,
);

pub(super) fn check(cases: &[Case]) {
    for (name, change, gate, answer) in cases {
        let mut facts = facts();
        let mut known = facts.known.take().unwrap();
        change(&mut facts, &mut known);
        facts.known = Some(known);
        let explanation = explain(&facts);
        assert_eq!(explanation.held_by, *gate, "{name}: {explanation:#?}");
        assert!(explanation.answer.contains(answer), "{name}: {explanation:#?}");
        let closed = explanation.gates.iter().find(|finding| !finding.open);
        assert!(closed.is_none_or(|c| c.frees.is_some()), "{name}");
        assert!(
            explanation.gates.iter().map(|g| g.gate).is_sorted(),
            "{name}: in order: {explanation:#?}"
        );
    }
}
