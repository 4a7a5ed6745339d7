//! What the definition says about an instant.

use jiff::{SignedDuration, Timestamp};

use super::facts::{Facts, Known};
use super::trigger;
use super::walk::{Gate, Walk};
use crate::definition::{DstPolicy, JobSpec};
use crate::due::{self, DuePolicy};
use crate::schedule::Schedule;

/// How late an agent may fire before it counts as nobody's doing it.
const FIRED_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// The gates of the definition for one instant that has no run.
pub(super) fn instant(walk: &mut Walk, facts: &Facts, known: &Known, at: Timestamp) -> Option<String> {
    if known.spec.schedule.is_empty() && !known.triggers.is_empty() {
        trigger::trigger(walk, known, Some(at));
        return None;
    }
    let (schedule, policy) = compiled(walk, facts, &known.spec)?;
    if schedule.is_continuous() {
        let job = &facts.job;
        return Some(format!(
            "no round became due at that very moment; `farmhand job history {job}` has the rounds"
        ));
    }
    if is_instant(&schedule, at) {
        walk.open(
            Gate::Schedule,
            format!("the schedule has it: {}", schedule.describe()),
        );
    } else {
        no_instant(walk, facts, &known.spec, &schedule, at);
        return None;
    }
    window(walk, &policy, at);
    match policy.calendar.excluded_until(at) {
        Some(end) => walk.closed(
            Gate::Calendar,
            format!("calendar {} excludes the day", known.spec.calendars.join(", ")),
            None,
            format!("the exclusion ends at {end}"),
        ),
        None => walk.open(Gate::Calendar, "no calendar excludes the day"),
    }
    if at > facts.now {
        return Some(format!("it is due at {at}, which is still to come"));
    }
    if walk.gates.iter().any(|finding| !finding.open) {
        return None;
    }
    unfired(walk, facts, known, at)
}

/// An instant of the past without any record.
pub(super) fn unfired(walk: &mut Walk, facts: &Facts, known: &Known, at: Timestamp) -> Option<String> {
    if known.next_run.is_some_and(|next| next <= at) {
        // Nothing is fired while claims are closed; their gate says so.
        if !facts.claims_open {
            return None;
        }
        if facts.now.duration_since(at) < FIRED_WITHIN {
            return Some("it has just become due".to_owned());
        }
        walk.closed(
            Gate::Fired,
            format!(
                "no agent has fired it, {} s after its time",
                facts.now.duration_since(at).as_secs()
            ),
            Some(at),
            "a ready agent fires what is overdue; `farmhand node ls` shows the agents",
        );
    } else if at < known.applied_at {
        walk.closed(
            Gate::Fired,
            "nothing is recorded: an earlier revision of the job was in force, or the history was dropped",
            None,
            "`farmhand job show` lists the revisions",
        );
    } else {
        walk.closed(
            Gate::Fired,
            "it was decided, and its record is gone: the history is kept for a limited time",
            None,
            "keep the history for longer",
        );
    }
    None
}

pub(super) fn window(walk: &mut Walk, policy: &DuePolicy, at: Timestamp) {
    match (policy.start, policy.end) {
        (Some(start), _) if at < start => {
            walk.closed(
                Gate::Window,
                "it is before `start`",
                None,
                format!("the job starts at {start}"),
            );
        }
        (_, Some(end)) if at >= end => {
            walk.closed(
                Gate::Window,
                "it is not before `end`",
                Some(end),
                "move `end`, or take it out",
            );
        }
        _ => walk.open(Gate::Window, "it is within `start` and `end`"),
    }
}

pub(super) fn no_instant(walk: &mut Walk, facts: &Facts, spec: &JobSpec, schedule: &Schedule, at: Timestamp) {
    let other = [DstPolicy::Both, DstPolicy::Once].into_iter().find(|dst| {
        let spec = JobSpec {
            dst: *dst,
            ..spec.clone()
        };
        due::compile(&facts.job, &spec).is_ok_and(|(schedule, _)| is_instant(&schedule, at))
    });
    if let Some(dst) = other {
        walk.open(Gate::Schedule, "the schedule has its time of day");
        walk.closed(
            Gate::Dst,
            "a clock change repeats or removes the time, and `dst` leaves this occurrence out",
            None,
            format!("dst = \"{dst}\" has it"),
        );
        return;
    }
    let before =
        last_before(schedule, at).map_or_else(String::new, |t| format!("; the last one before is {t}"));
    let after = schedule
        .next_after(at)
        .map_or_else(String::new, |t| format!("; the next one is {t}"));
    walk.closed(
        Gate::Schedule,
        format!("the schedule has no instant at {at}{before}{after}"),
        None,
        format!("it fires {}", schedule.describe()),
    );
}

pub(super) fn compiled(walk: &mut Walk, facts: &Facts, spec: &JobSpec) -> Option<(Schedule, DuePolicy)> {
    if let Some(table) = &spec.table {
        let name = format!("{}.{}", table.schema, table.name);
        walk.closed(
            Gate::Schedule,
            format!("no row of {name} waits, or it was not looked at yet"),
            None,
            format!(
                "set {} of a row to NULL; `farmhand doctor` tells what keeps the table from being read",
                table.dispatch
            ),
        );
        return None;
    }
    if spec.schedule.is_empty() {
        walk.closed(
            Gate::Schedule,
            "it has no schedule: it runs only when it is submitted or triggered",
            None,
            format!("`farmhand job run {}`, or give it a schedule", facts.job),
        );
        return None;
    }
    match due::compile(&facts.job, spec) {
        Ok(compiled) => Some(compiled),
        Err(error) => {
            let frees = "apply the job again with this version";
            walk.closed(
                Gate::Schedule,
                format!("its definition cannot be used: {error}"),
                None,
                frees,
            );
            None
        }
    }
}

/// No run waits: the schedule says what comes next.
pub(super) fn nothing_due(walk: &mut Walk, facts: &Facts, known: &Known) -> Option<String> {
    if !known.triggers.is_empty() && (known.spec.schedule.is_empty() || !known.waiting.is_empty()) {
        trigger::trigger(walk, known, None);
        return None;
    }
    let (schedule, policy) = compiled(walk, facts, &known.spec)?;
    if schedule.is_continuous() {
        walk.closed(
            Gate::Fired,
            "it is continuous, and there is no round of it",
            None,
            "an agent makes what lacks within a minute; `farmhand node ls` shows the agents",
        );
        return None;
    }
    if schedule.fires_at_boot() && !schedule.has_instants() {
        walk.closed(Gate::Schedule, "it fires when a node boots, once", None, "a boot");
        return None;
    }
    let next = known
        .next_run
        .or_else(|| due::next_run(&schedule, &policy, facts.now));
    let Some(next) = next else {
        window(walk, &policy, facts.now);
        if walk.gates.iter().all(|finding| finding.open) {
            let frees = "give it a schedule with instants to come";
            walk.closed(Gate::Schedule, "its schedule has no instant left", None, frees);
        }
        return None;
    };
    if next <= facts.now {
        return unfired(walk, facts, known, next);
    }
    if policy.calendar.excluded_until(next).is_some() {
        let first = due::first_from(&schedule, &policy, next).map_or_else(
            || "there is none after it".to_owned(),
            |at| format!("the first after it is {at}"),
        );
        walk.closed(
            Gate::Calendar,
            format!("its next instant is {next}, on a day that its calendar excludes; {first}"),
            known.decided_until,
            format!("another calendar; `farmhand job run {}` runs it now", facts.job),
        );
        return None;
    }
    walk.closed(
        Gate::Schedule,
        format!("nothing is due; next run at {next}"),
        known.decided_until,
        format!("the time comes; `farmhand job run {}` runs it now", facts.job),
    );
    None
}

fn is_instant(schedule: &Schedule, at: Timestamp) -> bool {
    let after = at.saturating_add(SignedDuration::from_nanos(1)).unwrap_or(at);
    schedule.between(at, after).next().is_some()
}

/// The last instant before `at`, looked for in ever longer stretches of up to four years.
fn last_before(schedule: &Schedule, at: Timestamp) -> Option<Timestamp> {
    const STRETCHES: [i64; 5] = [60, 3_600, 86_400, 40 * 86_400, 4 * 366 * 86_400];
    STRETCHES.into_iter().find_map(|seconds| {
        let from = at.checked_sub(SignedDuration::from_secs(seconds)).ok()?;
        schedule.between(from, at).last()
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Case, NOON, at, check};
    use super::*;
    use crate::schedule::ParseContext;

    #[test]
    fn what_is_due_while_claims_are_closed_is_held_by_the_database() {
        let case: Case = (
            "due while claims are closed",
            |f, k| (f.claims_open, k.next_run, k.decided_until) = (false, Some(at(NOON)), None),
            Some(Gate::Database),
            "claims are closed",
        );
        check(&[case]);
    }

    #[test]
    fn the_last_moment_of_all_is_no_instant() {
        let schedule = Schedule::parse(&["* * * * *"], &ParseContext::default()).unwrap();
        assert!(!is_instant(&schedule, Timestamp::MAX));
    }
}
