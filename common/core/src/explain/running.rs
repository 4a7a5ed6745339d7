//! What is said of runs that are under way.

use std::collections::BTreeSet;

use super::facts::{Facts, Known, Live, Node};
use super::places::fitting;
use super::walk::{Gate, Walk};
use crate::health::NodeState;
use crate::run::RunState;

/// What is said of a run that is under way; None while it waits.
pub(super) fn one(walk: &mut Walk, facts: &Facts, known: &Known, live: &Live) -> Option<String> {
    let (text, _) = under_way(facts, known, live)?;
    walk.open(Gate::Fired, text.clone());
    Some(text)
}

/// What is said of a job of which something is under way, and nothing waits.
pub(super) fn any(walk: &mut Walk, facts: &Facts, known: &Known) -> Option<String> {
    let mut nodes = BTreeSet::new();
    let mut doubtful = None;
    for live in &known.live {
        match (under_way(facts, known, live), &live.running_at) {
            (Some((_, true)), Some(node)) => drop(nodes.insert(node.as_str())),
            (told, _) => doubtful = doubtful.or(told),
        }
    }
    let text = if nodes.is_empty() {
        doubtful?.0
    } else {
        let nodes: Vec<&str> = nodes.into_iter().collect();
        format!("it is running, on {}", nodes.join(", "))
    };
    walk.open(Gate::Fired, text.clone());
    Some(text)
}

/// What is said of a run, and whether it certainly runs; None while it waits.
fn under_way(facts: &Facts, known: &Known, live: &Live) -> Option<(String, bool)> {
    let node = live.running_at.as_ref()?;
    let holder = facts.nodes.iter().find(|n| n.address == *node);
    let over = holder.and_then(|holder| over(holder, live));
    let (run, attempt) = (live.run_id, live.attempt);
    let told = match (live.started_at, live.claimed_at) {
        (Some(at), _) if over.is_none() => format!("run {run} runs on {node} since {at}"),
        (Some(at), _) => format!("run {run} started on {node} at {at}"),
        (None, Some(at)) => format!("run {run} was claimed by {node} at {at} and has not started"),
        (None, None) => format!("run {run} was claimed by {node} and has not started"),
    };
    Some(match over {
        None => (format!("{told}, attempt {attempt}"), live.started_at.is_some()),
        Some(over) => (
            format!(
                "{told}, attempt {attempt}; {over}: {}",
                becomes(facts, known, live, node)
            ),
            false,
        ),
    })
}

/// Why its node cannot go on with the run, if so.
fn over(holder: &Node, live: &Live) -> Option<String> {
    if live.session.is_some_and(|session| session < holder.session) {
        return Some(match holder.lost_at {
            Some(at) => format!("the session of its node ended at {at}"),
            None => "the session of its node is over".to_owned(),
        });
    }
    (holder.state == NodeState::Expired).then(|| "the lease of its node is over".to_owned())
}

/// What becomes of a run whose node cannot go on with it.
fn becomes(facts: &Facts, known: &Known, live: &Live, holder: &str) -> String {
    match live.if_lost {
        RunState::Lost => "it is recorded as lost, as on_lost = \"fail\" says".to_owned(),
        RunState::Failed => "it fails, as it was taken over five times before".to_owned(),
        RunState::Cancelled => "it is cancelled, as was requested".to_owned(),
        _ => again(facts, known, live, holder),
    }
}

/// Where a run that is due again may run.
fn again(facts: &Facts, known: &Known, live: &Live, holder: &str) -> String {
    let placement = &known.made_from.as_ref().unwrap_or(&known.spec).placement;
    let fitting = fitting(facts, placement, Some(live));
    let ready = || fitting.iter().filter(|node| node.state == NodeState::Ready);
    if ready().any(|node| node.address != holder) {
        "another node takes it over".to_owned()
    } else if ready().next().is_some() {
        format!("{holder} takes it over")
    } else if let [only] = fitting.as_slice() {
        format!("it waits for {}, the only node that may run it", only.address)
    } else {
        "it waits until a node that may run it is ready".to_owned()
    }
}
