//! What a job waits for that others trigger.

use jiff::Timestamp;

use super::facts::{Known, TriggerWait, Triggering};
use super::walk::{Gate, Walk};
use crate::definition::TriggerOn;

/// The gate of a job with parents that has no run at `at`, or, without it, none that waits.
pub(super) fn trigger(walk: &mut Walk, known: &Known, at: Option<Timestamp>) {
    let waiting = (known.waiting.iter()).find(|wait| at.is_none_or(|at| wait.due_at == at));
    match (waiting, at) {
        (Some(wait), _) => meeting(walk, known, wait),
        (None, Some(at)) => walk.closed(
            Gate::Trigger,
            format!("no end of {} at {at} triggered it", names(known)),
            None,
            ends(known, known.triggers.iter()),
        ),
        (None, None) => walk.closed(
            Gate::Trigger,
            format!("it waits for {}", list(known.triggers.iter().map(stands))),
            known.triggers.iter().filter_map(|p| p.last_finished).max(),
            ends(known, known.triggers.iter()),
        ),
    }
}

fn meeting(walk: &mut Walk, known: &Known, wait: &TriggerWait) {
    let since = Some(wait.ended_at);
    let met = format!("run {} of {} ended", wait.run_id, wait.parent);
    if wait.waits.is_empty() {
        let frees = "an agent looks at it; `farmhand node ls` shows the agents";
        walk.closed(
            Gate::Trigger,
            format!("{met}, and nobody has looked at it yet"),
            since,
            frees,
        );
        return;
    }
    let others = || known.triggers.iter().filter(|p| wait.waits.contains(&p.job_id));
    walk.closed(
        Gate::Trigger,
        format!("{met}, and it waits for {}", list(others().map(stands))),
        since,
        ends(known, others()),
    );
}

fn names(known: &Known) -> String {
    list(known.triggers.iter().map(|p| p.job_id.clone()))
}

/// A parent, and why it has not ended.
fn stands(parent: &Triggering) -> String {
    let job = &parent.job_id;
    if let Some(run) = parent.running.first() {
        let at = parent
            .running_at
            .as_ref()
            .map_or_else(String::new, |node| format!(" on {node}"));
        return format!("{job} (run {run} has not ended{at})");
    }
    let last = match (&parent.last_state, parent.last_finished) {
        (Some(state), Some(at)) => format!("its last run {state} at {at}"),
        _ => "it has never run".to_owned(),
    };
    match (parent.state.as_str(), parent.next_run) {
        ("enabled", Some(next)) => format!("{job} ({last}, its next instant is {next})"),
        ("enabled", None) => format!("{job} ({last})"),
        (state, _) => format!("{job} (it is {state}; {last})"),
    }
}

fn ends<'a>(known: &Known, parents: impl Iterator<Item = &'a Triggering>) -> String {
    let how = match known.spec.trigger_on {
        TriggerOn::Success => "succeeds",
        TriggerOn::Failure => "fails",
        TriggerOn::Finish => "ends",
    };
    list(parents.map(|p| match (p.running.first(), p.state.as_str()) {
        (Some(run), _) => format!("run {run} of {} {how}", p.job_id),
        (None, "paused") => format!("`farmhand job resume {}`, and it {how}", p.job_id),
        (None, "disabled") => format!("{} is enabled again, and {how}", p.job_id),
        (None, "observing") => format!("{} does not observe any more, and {how}", p.job_id),
        (None, "deleted") => format!("{} is applied again, and {how}", p.job_id),
        (None, _) => format!("{} {how} (`farmhand job run {}`)", p.job_id, p.job_id),
    }))
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" and ")
}
