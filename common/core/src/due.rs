//! What becomes of the due instants between the `next_run` that was seen and now: run or skipped, each once.
//!
//! Pure: the caller passes the database's clock. A plan covers every instant in [seen, following). When an
//! absence was so long that one plan would take too long, `following` is not after now: plan again from it.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::definition::{CatchUp, JobSpec, Missed, RunOn};
use super::schedule::{Calendar, CalendarDates, CalendarError, ParseContext, Schedule, ScheduleError};

/// An instant found this late still counts as on time: agents were there, only slow.
pub const ON_TIME: Duration = Duration::from_secs(10);

/// Runs made by one plan at most, whatever `catch_up` says: what one statement makes in time.
pub const MAX_DUE: usize = 10_000;

/// Nodes that a job of each node is taken to have, for that bound.
const NODES: u32 = 100;

/// Instants looked at by one plan at most.
const CHUNK: usize = 1_000_000;

crate::words! {
    /// Why a due instant was recorded without a run, or a run ended before it began. Details may follow it, after a colon.
    SkipReason {
        /// It was not fired in time and `catch_up` does not ask for it.
        Missed = "missed",
        /// An earlier run of the job had not ended.
        Overlap = "overlap",
        /// A calendar excludes the day.
        Calendar = "calendar",
        /// Somebody had paused the job.
        Paused = "paused",
        /// A clock change removed the time.
        Dst = "dst",
        /// Outside the job's `start` and `end`.
        Ended = "ended",
        /// Too many runs of the job were waiting.
        QueueFull = "queue_full",
        /// A later instant took its place.
        Replaced = "replaced",
        /// No node claimed it within the time that `catch_up` gives.
        TooLate = "too_late",
        /// No node was ready to run it.
        NoNode = "no_node",
        /// Its job was changed, disabled or deleted.
        Withdrawn = "withdrawn",
        /// Its triggers did not meet.
        Trigger = "trigger",
        /// A parent's parameter does not fit.
        Params = "params",
        /// The job was disabled.
        Disabled = "disabled",
        /// Its definition says `observe = true`: nothing of it is executed.
        Observed = "observed",
    }
}

/// Instants that were recorded without a run; those that are observed, one by one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Recorded {
    /// The node, of a job of each node.
    pub node: Option<String>,
    /// Why they were not run.
    pub reason: String,
    /// The first of them.
    pub first: Timestamp,
    pub last: Timestamp,
}

/// Neighbouring due instants skipped for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipFold {
    /// Why none of them is run.
    pub reason: SkipReason,
    /// The first of the instants.
    pub first: Timestamp,
    pub last: Timestamp,
    /// How many there are.
    pub count: i64,
}

impl SkipFold {
    /// Of one instant.
    pub fn one(reason: SkipReason, at: Timestamp) -> Self {
        Self {
            reason,
            first: at,
            last: at,
            count: 1,
        }
    }
}

/// How a job treats instants that are overdue or excluded.
#[derive(Clone, Debug, Default)]
pub struct DuePolicy {
    /// Which overdue instants are still run; `within` is never less than [`ON_TIME`].
    pub catch_up: CatchUp,
    /// The schedule has instants in [start, end) only.
    pub start: Option<Timestamp>,
    /// No instant from here on.
    pub end: Option<Timestamp>,
    /// Days without instants.
    pub calendar: Calendar,
}

/// What to record about one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirePlan {
    /// The job's next `next_run`; None when the schedule has come to its end.
    pub following: Option<Timestamp>,
    /// Instants to run, ascending.
    pub due: Vec<Timestamp>,
    /// Instants not to run, ascending.
    pub skipped: Vec<SkipFold>,
}

/// Why a stored definition has no usable schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
    #[error("{key} {value:?} is not an RFC 3339 instant")]
    Instant { key: &'static str, value: String },
    #[error("calendar: {}", list(.0))]
    Calendar(Vec<CalendarError>),
}

fn list(errors: &[CalendarError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// The schedule of a stored definition and how it treats what was missed.
pub fn compile(job_id: &str, spec: &JobSpec) -> Result<(Schedule, DuePolicy), CompileError> {
    let context = ParseContext {
        job: job_id,
        timezone: &spec.timezone,
        dst: spec.dst,
        spread: spec.spread,
    };
    let days = CalendarDates::parse(&spec.exclude).map_err(CompileError::Calendar)?;
    let schedule = Schedule::parse(&spec.schedule, &context)?.closed_on(&days);
    let each = match spec.run_on {
        RunOn::One => spec.instances,
        RunOn::EachNode => spec.instances.saturating_mul(NODES),
    };
    let runs = u32::try_from(MAX_DUE).unwrap_or(u32::MAX);
    let policy = DuePolicy {
        catch_up: CatchUp {
            max: spec.catch_up.max.min((runs / each.max(1)).max(1)),
            ..spec.catch_up
        },
        start: instant("start", spec.start.as_deref())?,
        end: instant("end", spec.end.as_deref())?,
        calendar: days.in_zone(schedule.timezone()),
    };
    Ok((schedule, policy))
}

fn instant(key: &'static str, value: Option<&str>) -> Result<Option<Timestamp>, CompileError> {
    let parse = |v: &str| {
        v.parse().map_err(|_| CompileError::Instant {
            key,
            value: v.to_owned(),
        })
    };
    value.map(parse).transpose()
}

/// The first due instant strictly after `after` and within `start` and `end`; None when there is none.
///
/// Days that a calendar excludes are due instants too: they end as skipped.
pub fn next_run(schedule: &Schedule, policy: &DuePolicy, after: Timestamp) -> Option<Timestamp> {
    let after = match policy.start {
        Some(start) if start > after => just_before(start),
        _ => after,
    };
    schedule
        .next_after(after)
        .filter(|t| policy.end.is_none_or(|end| *t < end))
}

/// The next `count` instants after `from` that will run: what a calendar excludes is left out.
pub fn upcoming(schedule: &Schedule, policy: &DuePolicy, from: Timestamp, count: usize) -> Vec<Timestamp> {
    let next = |after: &Timestamp| {
        let mut at = next_run(schedule, policy, *after)?;
        while let Some(open) = policy.calendar.excluded_until(at) {
            at = next_run(schedule, policy, just_before(open))?;
        }
        Some(at)
    };
    std::iter::successors(next(&from), next).take(count).collect()
}

/// The first instant at or after `at` that will run.
pub fn first_from(schedule: &Schedule, policy: &DuePolicy, at: Timestamp) -> Option<Timestamp> {
    upcoming(schedule, policy, just_before(at), 1).pop()
}

/// Why a boot at `at` does not run a job that has `@reboot`; None when it does.
pub fn skipped_at(policy: &DuePolicy, at: Timestamp) -> Option<SkipReason> {
    let inside = policy.start.is_none_or(|s| s <= at) && policy.end.is_none_or(|e| at < e);
    if !inside {
        Some(SkipReason::Ended)
    } else if policy.calendar.excluded_until(at).is_some() {
        Some(SkipReason::Calendar)
    } else {
        None
    }
}

/// Decides every due instant in [seen, following), where `following` is the first one after `now`, or the
/// first one not yet decided when there are very many.
pub fn plan(schedule: &Schedule, policy: &DuePolicy, seen: Timestamp, now: Timestamp) -> FirePlan {
    if now < seen {
        return FirePlan {
            following: Some(seen),
            due: Vec::new(),
            skipped: Vec::new(),
        };
    }
    let mut record = Record::new(policy, now);
    record.add(seen);
    let from = policy.start.map_or(seen, |start| seen.max(just_before(start)));
    let mut following = None;
    for (looked, instant) in schedule.iter_after(from).enumerate() {
        if policy.end.is_some_and(|end| instant >= end) {
            break;
        }
        if instant > now || looked == CHUNK {
            following = Some(instant);
            break;
        }
        record.add(instant);
    }
    if let Some(undecided) = following.filter(|f| *f <= now) {
        record.make_room_for(candidates(schedule, policy, undecided, now, record.keep));
    }
    record.into_plan(following)
}

/// Of a pause until `now`, whose instants up to `from` are recorded already: the first instant after it, and those that fell into it.
pub fn after_pause(
    schedule: &Schedule,
    policy: &DuePolicy,
    from: Timestamp,
    now: Timestamp,
) -> (Option<Timestamp>, Vec<SkipFold>) {
    let first = next_run(schedule, policy, from);
    not_run(schedule, policy, first, SkipReason::Paused, now)
}

/// Of instants until `now`, the first of which is given, that are not run for this reason: the first instant after them, and they.
pub fn not_run(
    schedule: &Schedule,
    policy: &DuePolicy,
    first: Option<Timestamp>,
    why: SkipReason,
    now: Timestamp,
) -> (Option<Timestamp>, Vec<SkipFold>) {
    // A plan is bounded, so a long stretch takes several.
    let policy = DuePolicy {
        catch_up: CatchUp {
            runs: Missed::Skip,
            ..policy.catch_up
        },
        ..policy.clone()
    };
    let (mut following, mut folds) = (first, Vec::new());
    while let Some(seen) = following.filter(|at| *at <= now) {
        let plan = plan(schedule, &policy, seen, now);
        let due = plan.due.iter().map(|at| SkipFold::one(why, *at));
        let mut fell: Vec<SkipFold> = plan.skipped.into_iter().chain(due).collect();
        fell.sort_by_key(|fold| fold.first);
        for mut fold in fell {
            if fold.reason == SkipReason::Missed {
                fold.reason = why;
            }
            append(&mut folds, fold);
        }
        following = plan.following;
    }
    (following, folds)
}

/// How many instants in [from, now] may be run as far as the calendar goes, counted up to `limit`.
fn candidates(
    schedule: &Schedule,
    policy: &DuePolicy,
    from: Timestamp,
    now: Timestamp,
    limit: usize,
) -> usize {
    let mut count = 0;
    let mut instants = schedule.iter_after(just_before(from));
    while let Some(instant) = instants.next() {
        if instant > now || count == limit || policy.end.is_some_and(|end| instant >= end) {
            break;
        }
        match policy.calendar.excluded_until(instant) {
            Some(open) => instants = schedule.iter_after(just_before(open)),
            None => count += 1,
        }
    }
    count
}

/// A moment between the instants, which are whole seconds, just before `t`.
fn just_before(t: Timestamp) -> Timestamp {
    t.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(t)
}

/// The decisions of a plan so far, in the order of the instants.
struct Record<'a> {
    policy: &'a DuePolicy,
    now: Timestamp,
    /// Instants before this are too old to run.
    oldest: Option<Timestamp>,
    /// Runs wanted at most: the newest.
    keep: usize,
    /// Decided: everything before the oldest instant that may still run.
    folds: Vec<SkipFold>,
    /// From that instant on. A newer one may still push it out.
    open: VecDeque<Item>,
    wanted: usize,
}

enum Item {
    Run(Timestamp),
    Skip(SkipFold),
}

impl<'a> Record<'a> {
    fn new(policy: &'a DuePolicy, now: Timestamp) -> Self {
        let CatchUp { runs, max, within } = policy.catch_up;
        let (limit, keep) = match runs {
            Missed::Latest => (within, 1),
            Missed::All => (within, (max as usize).clamp(1, MAX_DUE)),
            Missed::Skip => (Some(ON_TIME), 1),
        };
        let oldest = limit.and_then(|l| now.checked_sub(l.max(ON_TIME)).ok());
        Self {
            policy,
            now,
            oldest,
            keep,
            folds: Vec::new(),
            open: VecDeque::new(),
            wanted: 0,
        }
    }

    fn add(&mut self, instant: Timestamp) {
        debug_assert!(instant <= self.now);
        let reason = if let Some(reason) = skipped_at(self.policy, instant) {
            reason
        } else if self.oldest.is_some_and(|oldest| instant < oldest) {
            SkipReason::Missed
        } else {
            self.open.push_back(Item::Run(instant));
            self.wanted += 1;
            self.make_room_for(0);
            return;
        };
        let fold = SkipFold::one(reason, instant);
        match self.open.back_mut() {
            None => append(&mut self.folds, fold),
            Some(Item::Skip(last)) if last.reason == reason => extend(last, &fold),
            Some(_) => self.open.push_back(Item::Skip(fold)),
        }
    }

    /// Gives up the oldest runs until `newer` further ones would fit.
    fn make_room_for(&mut self, newer: usize) {
        while self.wanted > 0 && self.wanted + newer > self.keep {
            match self.open.pop_front() {
                Some(Item::Run(instant)) => {
                    append(&mut self.folds, SkipFold::one(SkipReason::Missed, instant));
                    self.wanted -= 1;
                }
                Some(Item::Skip(fold)) => append(&mut self.folds, fold),
                None => break,
            }
        }
    }

    fn into_plan(self, following: Option<Timestamp>) -> FirePlan {
        let mut plan = FirePlan {
            following,
            due: Vec::with_capacity(self.wanted),
            skipped: self.folds,
        };
        for item in self.open {
            match item {
                Item::Run(instant) => plan.due.push(instant),
                // A fold holds neighbours only, so it never reaches across a run.
                Item::Skip(fold) if plan.due.is_empty() => append(&mut plan.skipped, fold),
                Item::Skip(fold) => plan.skipped.push(fold),
            }
        }
        plan
    }
}

fn append(folds: &mut Vec<SkipFold>, fold: SkipFold) {
    match folds.last_mut() {
        Some(last) if last.reason == fold.reason => extend(last, &fold),
        _ => folds.push(fold),
    }
}

fn extend(fold: &mut SkipFold, next: &SkipFold) {
    fold.last = next.last;
    fold.count += next.count;
}
