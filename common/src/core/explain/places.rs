//! What a run that is due waits for, and where it may run.

use super::gates::Walk;
use super::{Facts, Gate, Known, Live, Node};
use crate::core::definition::{JobSpec, Overlap};

impl Walk {
    /// What the run itself waits for.
    pub(super) fn gate_of(&mut self, live: Option<&Live>, known: &Known) {
        let Some(live) = live else { return };
        let Some(gate) = live.gate.as_deref() else {
            self.open(Gate::Overlap, "it waits for no other run");
            return;
        };
        let spec = &known.spec;
        let (gate, what, frees) = match gate {
            "overlap" => {
                let before: Vec<String> = (known.live.iter())
                    .filter(|other| {
                        other.run_id != live.run_id && (other.gate.is_none() || other.due_at < live.due_at)
                    })
                    .map(|other| match &other.running_at {
                        Some(node) => format!("run {} on {node}", other.run_id),
                        None => format!("run {}", other.run_id),
                    })
                    .collect();
                let rule = match spec.overlap {
                    Overlap::Replace => "the end of what it replaces",
                    _ => "their end; `farmhand run cancel` ends one",
                };
                (
                    Gate::Overlap,
                    format!("run {} waits for {}", live.run_id, before.join(", ")),
                    rule.to_owned(),
                )
            }
            "pool" => (
                Gate::Pool,
                format!("run {} waits for a place in {}", live.run_id, pools(spec)),
                "a run in the pool ends, or `farmhand pool set` makes it larger".to_owned(),
            ),
            "lock" => (
                Gate::Lock,
                format!(
                    "run {} waits for the locks {}",
                    live.run_id,
                    spec.locks.join(", ")
                ),
                "the run that holds them ends".to_owned(),
            ),
            "rate" => (
                Gate::Rate,
                format!(
                    "run {} would go over the rate {}",
                    live.run_id,
                    spec.rate.as_deref().unwrap_or("")
                ),
                "time passes".to_owned(),
            ),
            other => (
                Gate::Trigger,
                format!("run {} waits: {other}", live.run_id),
                "`farmhand run show`".to_owned(),
            ),
        };
        self.closed(gate, what, Some(live.created_at), frees);
    }

    pub(super) fn places(&mut self, facts: &Facts, spec: &JobSpec, live: Option<&Live>) {
        let fits = |node: &&Node| {
            spec.placement
                .iter()
                .all(|(label, value)| node.labels.get(label) == Some(value))
                && live
                    .and_then(|l| l.node.as_ref())
                    .is_none_or(|only| *only == node.address)
        };
        let ready = |node: &&Node| node.state == "ready";
        let fitting: Vec<&Node> = facts.nodes.iter().filter(fits).collect();
        if fitting.is_empty() && !facts.nodes.is_empty() {
            let labels: Vec<String> = spec
                .placement
                .iter()
                .map(|(k, v)| format!("{k} = {v:?}"))
                .collect();
            let only = live.and_then(|l| l.node.clone());
            let what = match only {
                Some(node) => format!("it belongs to node {node}, which the farm does not know"),
                None => format!("no node has the labels {}", labels.join(", ")),
            };
            self.closed(
                Gate::Placement,
                what,
                None,
                "start an agent with these labels, or change `where`",
            );
            return;
        }
        self.open(Gate::Placement, format!("{} nodes may run it", fitting.len()));
        let able: Vec<&Node> = fitting.iter().copied().filter(ready).collect();
        if able.is_empty() {
            let states: Vec<String> = fitting
                .iter()
                .map(|n| match &n.by {
                    Some(by) => format!("{} is {} by {by}", n.address, n.state),
                    None => format!("{} is {}", n.address, n.state),
                })
                .collect();
            // The last one to leave closed the gate.
            let since = fitting.iter().filter_map(|n| n.since).max();
            let what = if states.is_empty() {
                "the farm has no node".to_owned()
            } else {
                format!("none of them is ready: {}", states.join(", "))
            };
            self.closed(
                Gate::Nodes,
                what,
                since,
                "start an agent, or `farmhand node resume`",
            );
            return;
        }
        self.open(Gate::Nodes, format!("{} of them are ready", able.len()));
        if live.is_none_or(|l| l.running_at.is_some()) {
            return;
        }
        if able.iter().any(|node| node.running < node.slots) {
            self.open(Gate::Slots, "one of them has a free slot");
        } else {
            let total: i64 = able.iter().map(|node| node.slots).sum();
            self.closed(
                Gate::Slots,
                format!("all {total} slots of these nodes are taken"),
                None,
                "a run ends, more slots or more agents, or a higher `priority`",
            );
        }
    }
}

fn pools(spec: &JobSpec) -> String {
    let names: Vec<&str> = [&spec.pool, &spec.node_pool]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    format!("pool {}", names.join(", "))
}
