//! Pools, locks and rates: who holds what a run waits for.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::facts::{Held, Leased, Live, Needed, Node};
use super::walk::{Gate, Walk};
use crate::definition::JobSpec;
use crate::text::shell_word;

/// Where locks of tasks hold.
const ON_NODE: &str = "on the node that runs it, among flows and `farmhand lock --local` of its user";

/// As many holders are named.
const NAMED: usize = 5;

/// The gates that a run with needs meets before it may be claimed; `waits`: the run that meets them now.
pub(super) fn needs(walk: &mut Walk, spec: &JobSpec, waits: Option<(&Live, &Needed)>) {
    if let Some((live, needed)) = waits {
        pool(walk, live, needed);
    }
    lock_scopes(walk, spec);
    if let Some((live, needed)) = waits {
        lock(walk, live, needed);
        rate(walk, live, needed);
    }
}

/// Where the locks of the job and of its tasks hold.
fn lock_scopes(walk: &mut Walk, spec: &JobSpec) {
    if !spec.locks.is_empty() {
        let named: Vec<&str> = spec.locks.iter().map(String::as_str).collect();
        let what = format!(
            "{} of its runs: on the whole farm, among runs of jobs, `farmhand lock` and `farmhand.acquire`",
            locks(&named)
        );
        walk.open(Gate::Lock, what);
    }
    let tasks = spec.flow.iter().flat_map(|flow| flow.tasks.values());
    let named: BTreeSet<&str> = tasks.flat_map(|task| &task.locks).map(String::as_str).collect();
    if !named.is_empty() {
        let named: Vec<&str> = named.into_iter().collect();
        walk.open(Gate::Lock, format!("{} of its tasks: {ON_NODE}", locks(&named)));
    }
    // Each node has scripts of its own.
    if let Some(dir) = spec.flow.as_ref().and_then(|flow| flow.dir.as_ref()) {
        let plan = format!("`farmhand flow plan {}` there lists them", shell_word(dir));
        walk.open(
            Gate::Lock,
            format!("locks that its scripts name (`# LOCK:`): {ON_NODE}; {plan}"),
        );
    }
}

fn pool(walk: &mut Walk, live: &Live, needed: &Needed) {
    let Some(name) = &needed.pool else { return };
    let holders: Vec<&Held> = (needed.holders.iter())
        .filter(|h| h.pool.as_ref() == Some(name))
        .collect();
    places_of(walk, Gate::Pool, name, needed.pool_size, &holders, live);
}

fn places_of(walk: &mut Walk, gate: Gate, name: &str, size: Option<i64>, holders: &[&Held], live: &Live) {
    let run = live.run_id;
    let since = Some(since(live, holders));
    let Some(size) = size else {
        walk.closed(
            gate,
            format!("run {run} needs the pool {name}, which is no longer there"),
            since,
            format!("apply a file with [pool.{name}], or `farmhand run cancel {run}`"),
        );
        return;
    };
    let used = i64::try_from(holders.len()).unwrap_or(i64::MAX);
    if size == 0 {
        walk.closed(
            gate,
            format!("run {run} waits for the pool {name}, which has size 0"),
            since,
            format!("`farmhand pool set {name} N` opens it"),
        );
    } else if used >= size {
        walk.closed(
            gate,
            format!(
                "run {run} waits for a place in pool {name}: {used} of {size} are taken by {}",
                list(holders)
            ),
            since,
            format!("one of them ends, or `farmhand pool set {name} N` makes it larger"),
        );
    } else {
        walk.open(gate, format!("{used} of {size} places of pool {name} are taken"));
    }
}

fn lock(walk: &mut Walk, live: &Live, needed: &Needed) {
    if needed.locks.is_empty() {
        return;
    }
    let holders: Vec<&Held> = (needed.holders.iter())
        .filter(|h| h.locks.iter().any(|lock| needed.locks.contains(lock)))
        .collect();
    if !holders.is_empty() {
        let taken: Vec<&str> = (needed.locks.iter())
            .filter(|lock| holders.iter().any(|h| h.locks.contains(lock)))
            .map(String::as_str)
            .collect();
        walk.closed(
            Gate::Lock,
            format!(
                "run {} waits for {}: held by {}",
                live.run_id,
                locks(&taken),
                list(&holders)
            ),
            Some(since(live, &holders)),
            match holders.as_slice() {
                [one] => format!("run {} ends; `farmhand run cancel {}`", one.run_id, one.run_id),
                _ => "they end; `farmhand run cancel` ends one".to_owned(),
            },
        );
        return;
    }
    if let [lease, ..] = needed.leases.as_slice() {
        let Leased {
            name,
            client,
            login,
            since,
        } = lease;
        walk.closed(
            Gate::Lock,
            format!("run {} waits for the lock {name}: {client} has it as {login} (`farmhand lock` or `farmhand.acquire`)", live.run_id),
            Some(live.ready_at.max(*since)),
            "its holder releases it; if the holder has died, an agent frees it after the TTL".to_owned(),
        );
        return;
    }
    if let Some((run_id, job_id)) = &needed.before {
        walk.closed(
            Gate::Lock,
            format!(
                "run {} waits for {}: run {run_id} of {job_id} waits for some of the same and comes first",
                live.run_id,
                locks(&needed.locks.iter().map(String::as_str).collect::<Vec<_>>()),
            ),
            Some(live.ready_at),
            format!("run {run_id} has had its turn"),
        );
        return;
    }
    walk.open(Gate::Lock, "its locks are free");
}

fn rate(walk: &mut Walk, live: &Live, needed: &Needed) {
    let Some(rate) = &needed.rate else { return };
    match needed.rate_free_at.filter(|at| *at > needed.now) {
        Some(at) => walk.closed(
            Gate::Rate,
            format!(
                "run {} would be one more than its rate {rate} allows",
                live.run_id
            ),
            Some(live.ready_at),
            format!("the next may start at {at}"),
        ),
        None => walk.open(Gate::Rate, format!("its rate {rate} is not used up")),
    }
}

/// The pool of a node: closed when no node that could run it has a place.
pub(super) fn node_pool(walk: &mut Walk, live: &Live, needed: &Needed, able: &[&Node]) {
    let Some(name) = &needed.node_pool else { return };
    let held = |node: &Node| -> Vec<&Held> {
        (needed.holders.iter())
            .filter(|h| h.node_pool.as_ref() == Some(name) && h.node == node.address)
            .collect()
    };
    let size = needed.node_pool_size;
    let free = |node: &&&Node| size.is_some_and(|size| (held(node).len() as i64) < size);
    if let Some(node) = able.iter().find(free) {
        let used = held(node).len();
        walk.open(
            Gate::NodePool,
            format!("pool {name} has room on {}: {used} taken", node.address),
        );
        return;
    }
    let all: Vec<&Held> = able.iter().flat_map(|node| held(node)).collect();
    if all.is_empty() || size.is_none() {
        places_of(walk, Gate::NodePool, name, size, &all, live);
        return;
    }
    walk.closed(
        Gate::NodePool,
        format!(
            "run {} waits for a place in pool {name} on a node: all are taken by {}",
            live.run_id,
            list(&all)
        ),
        Some(since(live, &all)),
        format!("one of them ends, another node joins, or `farmhand pool set {name} N` makes it larger"),
    );
}

/// Since when nothing was left: the last of what it needs was taken then, unless it came later itself.
fn since(live: &Live, holders: &[&Held]) -> Timestamp {
    let taken = holders.iter().map(|h| h.since).max();
    taken.map_or(live.ready_at, |at| at.max(live.ready_at))
}

fn locks(names: &[&str]) -> String {
    match names {
        [one] => format!("the lock {one}"),
        more => format!("the locks {}", more.join(", ")),
    }
}

fn list(holders: &[&Held]) -> String {
    let named: Vec<String> = (holders.iter().take(NAMED))
        .map(|h| format!("run {} ({} on {} since {})", h.run_id, h.job_id, h.node, h.since))
        .collect();
    let rest = match holders.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("{}{rest}", named.join(", "))
}
