//! When a job is due: cron expressions, macros and intervals in a time zone.
//!
//! A [`Schedule`] is a small value (bit sets and a shared time zone) that answers one question: which
//! instant comes next. The grammar and the rules for clock changes are in `docs/reference/schedules.md`.

mod calendar;
mod civil;
mod cron;
mod describe;
mod error;
mod field;
mod hash;
mod interval;
mod parse;
mod zone;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use calendar::{Calendar, CalendarDates, CalendarError};
pub use civil::{MONTHS, WEEKDAYS};
pub use error::{ExpressionError, ScheduleError};

use self::calendar::Closed;
use self::hash::JobHash;
use self::parse::Rule;
use self::zone::Segments;
pub use zone::DstPolicy;

/// All due instants of one job. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    rules: Box<[Rule]>,
    zone: TimeZone,
    dst: DstPolicy,
    /// Seconds added to every instant.
    spread: i64,
    late: Duration,
    closed: Closed,
}

/// A second is divided among jobs with a spread. Not finer, so that those of one place are fired by one statement.
const LATE_STEP: Duration = Duration::from_millis(50);
const LATE_STEPS: u32 = 20;
/// A job whose instants are nearer to each other fires at them: later ones would meet the next.
const LATE_FROM: i64 = 2;

/// What an expression needs to know about its job.
#[derive(Clone, Copy, Debug)]
pub struct ParseContext<'a> {
    /// Decides where `H` and the spread land.
    pub job: &'a str,
    /// IANA name.
    pub timezone: &'a str,
    /// What a clock change does to fixed times.
    pub dst: DstPolicy,
    /// The job fires a fixed number of whole seconds late, less than this, chosen by its name.
    pub spread: Duration,
}

impl Default for ParseContext<'_> {
    /// The documented defaults: UTC, `once`, no spread, a job without a name.
    fn default() -> Self {
        Self {
            job: "",
            timezone: "UTC",
            dst: DstPolicy::Once,
            spread: Duration::ZERO,
        }
    }
}

impl Schedule {
    /// Reads a job's list of expressions.
    /// Errors: The first expression that cannot be used or could never fire, with field, column and a fix; a zone
    /// that the system's tzdata does not have; `@continuous` beside another expression.
    pub fn parse<S: AsRef<str>>(
        expressions: &[S],
        context: &ParseContext<'_>,
    ) -> Result<Self, ScheduleError> {
        let hash = JobHash::new(context.job);
        let mut rules = Vec::with_capacity(expressions.len());
        for (index, expression) in expressions.iter().enumerate() {
            let expression = expression.as_ref();
            let rule = parse::parse(expression, &hash).map_err(|f| f.in_expression(index, expression))?;
            if rule == Rule::Continuous && expressions.len() > 1 {
                let fault =
                    error::Fault::whole(0, "@continuous stands alone", "remove the other expressions");
                return Err(fault.in_expression(index, expression));
            }
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        let limit = u32::try_from(context.spread.as_secs()).unwrap_or(u32::MAX);
        let steps = if limit == 0 {
            0
        } else {
            hash.below("late", LATE_STEPS)
        };
        Ok(Self {
            rules: rules.into_boxed_slice(),
            zone: zone_named(context.timezone)?,
            dst: context.dst,
            spread: hash.below("spread", limit).into(),
            late: LATE_STEP * steps,
            closed: Closed::default(),
        })
    }

    /// The same schedule, whose business days (`LB`, `3B`) are none of these.
    pub fn closed_on(self, days: &CalendarDates) -> Self {
        Self {
            closed: days.closed(),
            ..self
        }
    }

    /// The first due instant strictly after `after`; None when there is none (only `@reboot` or
    /// `@continuous`, or the end of the calendar in the year 9999).
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.iter_after(after).next()
    }

    /// The due instants strictly after `after`, ascending, each once.
    pub fn iter_after(&self, after: Timestamp) -> Instants<'_> {
        let from = floor_second(after).saturating_add(1).saturating_sub(self.spread);
        Instants {
            schedule: self,
            segments: Segments::new(&self.zone, &self.closed),
            from,
            pending: Pending::Unknown,
        }
    }

    /// The due instants in [from, to), ascending, each once.
    pub fn between(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        let mut instants = self.iter_after(from);
        if from.subsec_nanosecond() == 0 {
            instants.from = instants.from.saturating_sub(1);
        }
        instants.take_while(move |t| *t < to)
    }

    /// `@continuous`: due again as soon as it has ended; it has no instants.
    pub fn is_continuous(&self) -> bool {
        self.rules.contains(&Rule::Continuous)
    }

    /// `@reboot`: fires once per boot of each node, besides any instants.
    pub fn fires_at_boot(&self) -> bool {
        self.rules.contains(&Rule::Reboot)
    }

    /// Whether there are instants at all.
    pub fn has_instants(&self) -> bool {
        self.rules
            .iter()
            .any(|r| matches!(r, Rule::Cron(_) | Rule::Every(_)))
    }

    /// The schedule in plain words, for people: "at 08:05 on weekdays, Europe/Berlin".
    pub fn describe(&self) -> String {
        let mut text = self
            .rules
            .iter()
            .map(describe::rule)
            .collect::<Vec<_>>()
            .join("; ");
        if self.rules.iter().any(|r| matches!(r, Rule::Cron(_))) {
            text = format!("{text}, {}", self.zone.iana_name().unwrap_or("UTC"));
        }
        if self.spread > 0 {
            text = format!("{text}, {} later", describe::span(self.spread));
        }
        text
    }

    /// The zone whose wall clock the expressions speak of.
    pub fn timezone(&self) -> &TimeZone {
        &self.zone
    }

    /// How long after this instant the job fires: less than a second, and nothing without a spread. Instants stay whole
    /// seconds; this only keeps the jobs of one second from starting all at once.
    pub fn late_at(&self, instant: Timestamp) -> Duration {
        let near = |next: Timestamp| next.as_second() - instant.as_second() < LATE_FROM;
        if self.late.is_zero() || self.next_after(instant).is_some_and(near) {
            return Duration::ZERO;
        }
        self.late
    }
}

/// The due instants of a schedule, ascending. See [`Schedule::iter_after`].
#[derive(Clone, Debug)]
pub struct Instants<'a> {
    schedule: &'a Schedule,
    segments: Segments<'a>,
    /// Unix seconds, before the spread: the next instant is not earlier.
    from: i64,
    pending: Pending,
}

/// Per rule the next instant, kept only where several rules are merged.
#[derive(Clone, Debug)]
enum Pending {
    Unknown,
    Known(Vec<Option<i64>>),
}

impl Instants<'_> {
    fn next_of(&mut self, rule: &Rule) -> Option<i64> {
        match rule {
            Rule::Cron(cron) => self.segments.fire_at_or_after(cron, self.schedule.dst, self.from),
            Rule::Every(seconds) => {
                let behind = self.from.rem_euclid(*seconds);
                self.from
                    .checked_add(if behind == 0 { 0 } else { seconds - behind })
            }
            Rule::Reboot | Rule::Continuous => None,
        }
    }

    fn merged(&mut self) -> Option<i64> {
        let schedule = self.schedule;
        let rules = &schedule.rules;
        let mut pending = match std::mem::replace(&mut self.pending, Pending::Unknown) {
            Pending::Known(pending) => pending,
            Pending::Unknown => rules.iter().map(|r| self.next_of(r)).collect(),
        };
        for (next, rule) in pending.iter_mut().zip(rules.iter()) {
            if next.is_some_and(|n| n < self.from) {
                *next = self.next_of(rule);
            }
        }
        let earliest = pending.iter().flatten().min().copied();
        self.pending = Pending::Known(pending);
        earliest
    }
}

impl Iterator for Instants<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        let second = match &*self.schedule.rules {
            [rule] => self.next_of(rule),
            _ => self.merged(),
        }?;
        let instant = Timestamp::from_second(second.checked_add(self.schedule.spread)?).ok()?;
        self.from = second + 1;
        Some(instant)
    }
}

fn zone_named(name: &str) -> Result<TimeZone, ScheduleError> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| ScheduleError::Zone {
        name: name.to_owned(),
    })
}

/// The whole second at or before `t`; `as_second` alone rounds towards 1970.
fn floor_second(t: Timestamp) -> i64 {
    t.as_second() - i64::from(t.subsec_nanosecond() < 0)
}
