//! Days on which a job does not run, and which are no business days.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::civil::days_from_civil;

/// The excluded days of a `[calendar.NAME]`, not yet placed in a time zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalendarDates {
    /// First and last day, both excluded from running.
    ranges: Vec<(Date, Date)>,
}

/// An entry of a calendar that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} {problem}; {fix}")]
pub struct CalendarError {
    /// Position in the list, from 0.
    pub index: usize,
    /// As it is written.
    pub entry: String,
    /// What is wrong with it.
    pub problem: String,
    pub fix: String,
}

impl CalendarDates {
    /// Reads `2026-12-24..2026-12-26` (both ends included) and `2027-01-01`.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, Vec<CalendarError>> {
        let mut ranges = Vec::with_capacity(entries.len());
        let mut errors = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let entry = entry.as_ref();
            match range(entry) {
                Ok(range) => ranges.push(range),
                Err((problem, fix)) => {
                    errors.push(CalendarError {
                        index,
                        entry: entry.to_owned(),
                        problem,
                        fix,
                    });
                }
            }
        }
        if errors.is_empty() {
            Ok(Self { ranges })
        } else {
            Err(errors)
        }
    }

    /// Adds another calendar's days.
    pub fn extend(&mut self, other: &CalendarDates) {
        self.ranges.extend_from_slice(&other.ranges);
    }

    /// All days that are none of these, as entries.
    pub fn others(&self) -> Vec<String> {
        let mut ranges = self.ranges.clone();
        ranges.sort_unstable();
        let (mut from, mut others) = (Some(Date::constant(1, 1, 1)), Vec::new());
        for (first, last) in ranges {
            let Some(open) = from else { break };
            if let Some(end) = first.yesterday().ok().filter(|end| open <= *end) {
                others.push(format!("{open}..{end}"));
            }
            from = last.tomorrow().ok().map(|next| next.max(open));
        }
        others.extend(from.map(|open| format!("{open}..{}", Date::MAX)));
        others
    }

    pub(super) fn closed(&self) -> Closed {
        let number = |day: Date| days_from_civil(day.year().into(), day.month() as u32, day.day() as u32);
        let mut ranges: Vec<(i64, i64)> = (self.ranges.iter())
            .map(|(first, last)| (number(*first), number(*last)))
            .collect();
        ranges.sort_unstable();
        Closed(ranges.into_boxed_slice())
    }

    /// The days as stretches of time in the job's zone.
    pub fn in_zone(&self, zone: &TimeZone) -> Calendar {
        let mut stretches: Vec<(Timestamp, Timestamp)> = Vec::with_capacity(self.ranges.len());
        let mut ranges = self.ranges.clone();
        ranges.sort_unstable();
        for (first, last) in ranges {
            let Some(start) = start_of(first, zone) else {
                continue;
            };
            // The last days of all have no end.
            let end = last.tomorrow().ok().and_then(|day| start_of(day, zone));
            let end = end.unwrap_or(Timestamp::MAX);
            match stretches.last_mut() {
                Some(previous) if start <= previous.1 => previous.1 = previous.1.max(end),
                _ => stretches.push((start, end)),
            }
        }
        Calendar {
            stretches: stretches.into_boxed_slice(),
        }
    }
}

/// Days that are no business days: first and last of each range, since 1970-01-01.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Closed(Box<[(i64, i64)]>);

impl Closed {
    /// Of the `length` days from `from` on; bit n is the n-th.
    pub fn mask(&self, from: i64, length: u32) -> u32 {
        let day = |nth: &u32| from + i64::from(*nth) - 1;
        let is_closed = |day: i64| self.0.iter().any(|(first, last)| (*first..=*last).contains(&day));
        let days = (1..=length).filter(|nth| is_closed(day(nth)));
        days.fold(0, |mask, nth| mask | 1 << nth)
    }
}

/// Excluded stretches of time, ascending and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calendar {
    /// [start, end).
    stretches: Box<[(Timestamp, Timestamp)]>,
}

impl Calendar {
    /// When the exclusion that holds at `t` ends; None when `t` is not excluded.
    pub fn excluded_until(&self, t: Timestamp) -> Option<Timestamp> {
        let after = self.stretches.partition_point(|(start, _)| *start <= t);
        let (_, end) = self.stretches.get(after.checked_sub(1)?)?;
        (t < *end).then_some(*end)
    }
}

fn start_of(day: Date, zone: &TimeZone) -> Option<Timestamp> {
    // A midnight inside a gap means the first instant after it, a repeated one its first occurrence.
    Some(
        zone.to_ambiguous_zoned(day.at(0, 0, 0, 0))
            .compatible()
            .ok()?
            .timestamp(),
    )
}

fn range(entry: &str) -> Result<(Date, Date), (String, String)> {
    let (first, last) = entry.split_once("..").unwrap_or((entry, entry));
    let (first, last) = (date(first)?, date(last)?);
    if first > last {
        return Err(("runs backwards".to_owned(), format!("write \"{last}..{first}\"")));
    }
    Ok((first, last))
}

fn date(text: &str) -> Result<Date, (String, String)> {
    let text = text.trim();
    let fix = "write a day as 2026-12-24, a range as 2026-12-24..2026-12-26";
    // jiff also reads a date out of a date-time; a calendar has whole days.
    if text.len() != 10 {
        return Err((
            format!("holds {text:?}, which is not a valid day"),
            fix.to_owned(),
        ));
    }
    text.parse().map_err(|_| {
        (
            format!("holds {text:?}, which is not a valid day"),
            fix.to_owned(),
        )
    })
}
