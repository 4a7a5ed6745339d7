//! What a run that is due waits for, and where it may run.

use super::facts::{Facts, Known, Live, Node};
use super::needs;
use super::walk::{Gate, Walk};
use crate::definition::{Overlap, Placement};
use crate::health::NodeState;
use crate::text::{count, count_of};

/// Whether it waits for earlier runs of its job.
pub(super) fn overlap(walk: &mut Walk, live: Option<&Live>, known: &Known) {
    let Some(live) = live else { return };
    if !live.queued() {
        walk.open(Gate::Overlap, "it waits for no other run");
        return;
    }
    let before: Vec<String> = (known.live.iter())
        .filter(|other| other.overlaps && (live.node.is_none() || other.node == live.node))
        .filter(|other| other.run_id != live.run_id && (!other.queued() || other.due_at < live.due_at))
        .map(|other| match &other.running_at {
            Some(node) => format!("run {} on {node}", other.run_id),
            None => format!("run {}", other.run_id),
        })
        .collect();
    let rule = match known.spec.overlap {
        Overlap::Replace => "the end of what it replaces",
        _ => "their end; `farmhand run cancel` ends one",
    };
    walk.closed(
        Gate::Overlap,
        format!("run {} waits for {}", live.run_id, before.join(", ")),
        Some(live.created_at),
        rule,
    );
}

pub(super) fn places(
    walk: &mut Walk,
    facts: &Facts,
    known: &Known,
    placement: &Placement,
    live: Option<&Live>,
) {
    let ready = |node: &&Node| node.state == NodeState::Ready;
    let fitting = fitting(facts, placement, live);
    if fitting.is_empty() && !facts.nodes.is_empty() {
        let only = live.and_then(|l| l.node.clone());
        let what = match only {
            Some(node) => format!("it belongs to node {node}, which the farm does not know"),
            None => format!("no node has the labels {placement}"),
        };
        walk.closed(
            Gate::Placement,
            what,
            None,
            "start an agent with these labels, or change `where`",
        );
        return;
    }
    walk.open(
        Gate::Placement,
        format!("{} may run it", count(fitting.len(), "node")),
    );
    let able: Vec<&Node> = fitting.iter().copied().filter(ready).collect();
    if able.is_empty() {
        let states: Vec<String> = fitting
            .iter()
            .map(|n| match (&n.by, &n.cannot_start) {
                (_, Some(why)) if n.state == NodeState::Blocked => {
                    format!("{} is blocked: {why}", n.address)
                }
                (Some(by), _) if matches!(n.state, NodeState::Cordoned | NodeState::Draining) => {
                    format!("{} is {} by {by}", n.address, n.state)
                }
                (Some(by), _) => format!("{} is {}, and withheld by {by}", n.address, n.state),
                (None, _) => format!("{} is {}", n.address, n.state),
            })
            .collect();
        // The last one to leave closed the gate.
        let since = fitting.iter().filter_map(|n| n.since).max();
        let what = if let (Some(live), [only]) = (live.filter(|l| l.node.is_some()), &fitting[..]) {
            let (run, node, state) = (live.run_id, &only.address, only.state);
            format!("run {run} belongs to node {node}, which is {state}")
        } else if states.is_empty() {
            "the farm has no node".to_owned()
        } else {
            format!("none of them is ready: {}", states.join(", "))
        };
        let withheld = fitting
            .iter()
            .find(|n| n.by.is_some() && matches!(n.state, NodeState::Cordoned | NodeState::Draining));
        let blocked = fitting.iter().find(|n| n.state == NodeState::Blocked);
        let away = fitting.iter().find(|n| n.by.is_some());
        let frees = match (withheld, blocked, away) {
            (Some(node), _, _) => format!("`farmhand node resume {}`, or start an agent", node.address),
            (None, Some(node), _) => {
                format!(
                    "room for processes on {}, which tries again by itself, or start an agent",
                    node.address
                )
            }
            (None, None, Some(node)) => format!(
                "start its agent and `farmhand node resume {}`, or start another agent",
                node.address
            ),
            (None, None, None) => "start an agent".to_owned(),
        };
        walk.closed(Gate::Nodes, what, since, frees);
        return;
    }
    walk.open(
        Gate::Nodes,
        count_of(able.len(), "of them is ready", "of them are ready"),
    );
    let Some(live) = live else { return };
    if let Some(needed) = &known.needed {
        needs::node_pool(walk, live, needed, &able);
    }
    if able.iter().any(|node| node.running < node.slots) {
        walk.open(Gate::Slots, "one of them has a free slot");
    } else {
        let total: i64 = able.iter().map(|node| node.slots).sum();
        walk.closed(
            Gate::Slots,
            format!("all {total} slots of these nodes are taken"),
            None,
            "a run ends, more slots or more agents, or a higher `priority`",
        );
    }
}

pub(super) fn fitting<'a>(facts: &'a Facts, placement: &Placement, live: Option<&Live>) -> Vec<&'a Node> {
    let only = live.and_then(|live| live.node.as_ref());
    (facts.nodes.iter())
        .filter(|node| placement.lacking(&node.labels).is_empty())
        .filter(|node| only.is_none_or(|only| *only == node.address))
        .collect()
}
