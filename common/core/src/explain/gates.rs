//! The gates, one function each.

use super::facts::{Facts, Known, Outcome, subject};
use super::walk::{Explanation, Gate, Walk};
use super::{instant, needs, places, running};
use crate::definition::{Enabled, Missed};
use crate::due::SkipReason;
use crate::run::RunState;

const OBSERVED: &str = "its definition says observe = true: nothing of it is executed";
const TAKE_OUT: &str = "take `observe` out of its job file and apply it";

/// Walks the gates.
pub fn explain(facts: &Facts) -> Explanation {
    let mut walk = Walk::default();
    let answer = match &facts.known {
        None => {
            walk.closed(
                Gate::Exists,
                format!("there is no job {}", facts.job),
                None,
                "apply a job file that defines it; `farmhand job ls` shows the jobs",
            );
            None
        }
        Some(known) => job(&mut walk, facts, known),
    };
    let held = walk.gates.iter().find(|finding| !finding.open);
    Explanation {
        job_id: facts.job.clone(),
        at: facts.at,
        held_by: held.map(|finding| finding.gate),
        answer: match (held, answer) {
            (Some(finding), _) => finding.what.clone(),
            (None, Some(answer)) => answer,
            (None, None) => "nothing holds it back".to_owned(),
        },
        gates: walk.gates,
    }
}

/// All gates of a job that exists; what is said when none is closed.
fn job(walk: &mut Walk, facts: &Facts, known: &Known) -> Option<String> {
    if let Some(at) = facts
        .at
        .filter(|at| *at < known.since && known.outcomes.is_empty() && facts.run.is_none())
    {
        walk.closed(
            Gate::Exists,
            format!(
                "{} did not exist at {at}: its first revision was applied later",
                facts.job
            ),
            None,
            "`farmhand job backfill` makes runs for instants of the past",
        );
        return None;
    }
    walk.open(Gate::Exists, format!("it exists since {}", known.since));
    // What is recorded counts more than what the definition says today.
    if let Some(answer) = facts.at.and_then(|_| recorded(walk, known)) {
        return Some(answer);
    }
    if walk.gates.iter().any(|finding| !finding.open) {
        return None;
    }
    let live = subject(&known.live, facts.at, facts.run);
    if let Some(answer) = live.and_then(|live| running::one(walk, facts, known, live)) {
        return Some(answer);
    }
    // What is made is claimed, whatever is said of its job since.
    if facts.run.is_none() && live.is_none() {
        enabled(walk, known);
        paused(walk, &facts.job, known);
    }
    let answer = match (facts.at, live) {
        (_, Some(live)) => {
            let is = if live.due_at > facts.now { "at" } else { "since" };
            walk.open(
                Gate::Fired,
                format!("run {} is due {is} {}", live.run_id, live.due_at),
            );
            None
        }
        (Some(at), None) => instant::instant(walk, facts, known, at),
        (None, None) => match running::any(walk, facts, known) {
            // It has passed the gates that are left.
            Some(answer) => return Some(answer),
            None => instant::nothing_due(walk, facts, known),
        },
    };
    places::overlap(walk, live, known);
    let ready = live.filter(|live| live.ready_at <= facts.now);
    let made_from = known.made_from.as_ref().unwrap_or(&known.spec);
    needs::needs(walk, made_from, ready.zip(known.needed.as_ref()));
    if let Some(live) = live.filter(|live| !live.queued() && live.ready_at > facts.now) {
        walk.closed(
            Gate::Ready,
            format!("run {} waits until {}", live.run_id, live.ready_at),
            Some(live.created_at),
            match &live.reason {
                Some(reason) if reason == "idle" => {
                    "it looks again then, having found nothing to do".to_owned()
                }
                Some(reason) => format!("it is tried again then ({reason})"),
                None => "its time comes".to_owned(),
            },
        );
    }
    places::places(walk, facts, known, &made_from.placement, live);
    if facts.claims_open {
        walk.open(Gate::Database, "the database answers, and claims are open");
    } else {
        walk.closed(
            Gate::Database,
            "claims are closed: the database was failed over, restored or restarted",
            None,
            "an agent opens them when it knows the database again, or has watched it for the longest lease",
        );
    }
    answer
}

/// Whether the instant's outcome is known; then nothing else matters.
fn recorded(walk: &mut Walk, known: &Known) -> Option<String> {
    let outcomes: &[Outcome] = &known.outcomes;
    // What has not ended says more. A backfill makes runs for what was skipped, too.
    if outcomes
        .iter()
        .any(|o| known.live.iter().any(|live| live.run_id == o.run_id))
    {
        return None;
    }
    // Of several runs of an instant, one that did not succeed.
    let ran = outcomes
        .iter()
        .filter(|o| o.state.is_final() && o.state != RunState::Skipped)
        .min_by_key(|o| o.state == RunState::Succeeded);
    if let Some(run) = ran {
        let ran = if run.attempt == 0 {
            "it never ran"
        } else {
            "it ran"
        };
        let by = run
            .running_at
            .as_ref()
            .map_or_else(String::new, |node| format!(" on {node}"));
        let why = (run.reason.as_ref())
            .filter(|reason| *reason != run.state.as_str())
            .map_or_else(String::new, |reason| format!(": {reason}"));
        let rule = match run.state {
            RunState::Lost if run.reason.as_deref() == Some("its node is gone") => {
                "; no other node may run it"
            }
            RunState::Lost => "; it is not run again, as on_lost = \"fail\" says",
            _ => "",
        };
        let text = format!("{ran}: run {} {}{by}{why}{rule}", run.run_id, run.state);
        walk.open(Gate::Fired, text.clone());
        return Some(text);
    }
    let skipped = outcomes.iter().find(|o| o.state == RunState::Skipped)?;
    let reason = skipped.reason.as_deref().unwrap_or("no reason");
    let word = reason.split(':').next().unwrap_or(reason).parse();
    let (gate, what, frees) = match word {
        Ok(SkipReason::Calendar) => (
            Gate::Calendar,
            "a calendar excluded the day",
            "take the day out of the calendar, and backfill",
        ),
        Ok(SkipReason::Paused) => (
            Gate::Paused,
            "the job was paused",
            "`farmhand job resume`, and backfill",
        ),
        Ok(SkipReason::Ended) => (
            Gate::Window,
            "it was outside `start` and `end`",
            "move them, and backfill",
        ),
        Ok(SkipReason::Dst) => (
            Gate::Dst,
            "a clock change removed the time",
            "dst = \"once\" runs it after the change",
        ),
        Ok(SkipReason::Missed) => (
            Gate::Fired,
            match known.spec.catch_up.runs {
                Missed::Latest => {
                    "no agent fired it in time, and catch_up.runs = \"latest\" runs only the newest of what was missed"
                }
                Missed::All => "no agent fired it in time, and it was beyond catch_up.within or catch_up.max",
                Missed::Skip => "no agent fired it in time, and catch_up.runs = \"skip\" runs nothing later",
            },
            "`farmhand job backfill` runs it now; catch_up.runs = \"all\" runs all that is missed",
        ),
        Ok(SkipReason::Overlap) => (
            Gate::Overlap,
            "an earlier run had not ended",
            "overlap = \"queue\" or \"allow\"; or a shorter run",
        ),
        Ok(SkipReason::QueueFull) => (
            Gate::Overlap,
            "a thousand runs were waiting already",
            "a shorter run, or a schedule that fires less",
        ),
        Ok(SkipReason::Replaced) => (
            Gate::Overlap,
            "a later instant replaced it",
            "overlap = \"queue\" runs every one",
        ),
        Ok(SkipReason::TooLate) => (
            Gate::Fired,
            "no node claimed it within the time that catch_up.within gives",
            "`farmhand job backfill` runs it now; `farmhand explain` of the next run says what it waits for",
        ),
        Ok(SkipReason::NoNode) => (
            Gate::Nodes,
            "no node was ready to run it",
            "start an agent with the labels it wants",
        ),
        Ok(SkipReason::Withdrawn) => (
            Gate::Fired,
            "its job was changed, disabled or deleted before it began",
            "`farmhand job show` lists the revisions",
        ),
        Ok(SkipReason::Trigger) => (
            Gate::Trigger,
            "its triggers did not meet",
            "`farmhand run retry` of the one that did not, or another `trigger_on`",
        ),
        Ok(SkipReason::Params) => (
            Gate::Trigger,
            "a parent's parameter does not fit",
            "declare it with the parent's type, or run the parent with one that fits",
        ),
        Ok(SkipReason::Disabled) => (
            Gate::Enabled,
            "its definition said enabled = false",
            "apply it with enabled = true",
        ),
        Ok(SkipReason::Observed) => (Gate::Enabled, OBSERVED, TAKE_OUT),
        Err(_) => (Gate::Fired, "it was skipped", "`farmhand run show` tells more"),
    };
    let since = Some(skipped.first_due);
    walk.closed(gate, format!("skipped ({reason}): {what}"), since, frees);
    None
}

fn enabled(walk: &mut Walk, known: &Known) {
    let (what, frees) = match known.spec.enabled {
        Enabled::Yes => return walk.open(Gate::Enabled, "it is enabled"),
        Enabled::No => (
            "its definition says enabled = false",
            "apply it with enabled = true",
        ),
        Enabled::Observe => (OBSERVED, TAKE_OUT),
    };
    walk.closed(Gate::Enabled, what, Some(known.applied_at), frees);
}

fn paused(walk: &mut Walk, job: &str, known: &Known) {
    let Some(paused) = &known.paused else {
        walk.open(Gate::Paused, "it is not paused");
        return;
    };
    let by = paused
        .by
        .as_ref()
        .map_or_else(String::new, |by| format!(" by {by}"));
    let why = paused
        .reason
        .as_ref()
        .map_or_else(String::new, |why| format!(": {why}"));
    let frees = format!("`farmhand job resume {job}`");
    walk.closed(Gate::Paused, format!("it is paused{by}{why}"), paused.at, frees);
}
