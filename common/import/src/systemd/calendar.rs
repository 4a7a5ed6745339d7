//! `OnCalendar=` as a schedule here. The grammar is that of systemd.time(7); what no schedule can say is refused in words.

use std::collections::BTreeSet;

use farmhand_core::schedule::WEEKDAYS;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::fields::{Days, EVERY, days_of, field, full};

/// One calendar expression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Calendar {
    /// Five or six fields.
    pub expression: String,
    pub timezone: Option<String>,
    /// The years that it names, as ranges from the first to the last of each; none where it names all.
    pub years: Vec<(u32, u32)>,
}

/// Shorthands, as systemd spells them out.
const WORDS: [(&str, &str); 13] = [
    ("minutely", "*-*-* *:*:00"),
    ("hourly", "*-*-* *:00:00"),
    ("daily", "*-*-* 00:00:00"),
    ("monthly", "*-*-01 00:00:00"),
    ("weekly", "Mon *-*-* 00:00:00"),
    ("yearly", "*-01-01 00:00:00"),
    ("annually", "*-01-01 00:00:00"),
    ("anually", "*-01-01 00:00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00:00"),
    ("semiannually", "*-01,07-01 00:00:00"),
    ("semi-annually", "*-01,07-01 00:00:00"),
    ("biannually", "*-01,07-01 00:00:00"),
    ("bi-annually", "*-01,07-01 00:00:00"),
];

/// The last year that systemd knows.
const LAST_YEAR: u32 = 2199;

/// Reads one `OnCalendar=`.
/// Errors: What is wrong with it, or what of it no schedule can say.
pub fn on_calendar(text: &str) -> Result<Calendar, String> {
    let instant = single(text.trim())?;
    let text = instant.as_deref().unwrap_or(text).trim();
    let (body, timezone) = zone(text);
    let short = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(body));
    let mut rest = short.map_or(body, |(_, full)| full).trim();
    let mut weekdays = EVERY;
    if rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let (days, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        weekdays = weekdays_of(days)?;
        rest = after.trim();
    }
    let (mut date, mut time) = ("", "");
    for part in rest.split_whitespace() {
        match (part.contains(':'), part.contains(['-', '~'])) {
            (true, _) if time.is_empty() => time = part,
            (false, true) if date.is_empty() && time.is_empty() => date = part,
            _ => return Err(format!("\"{part}\" is neither a date nor a time of day")),
        }
    }
    if date.is_empty() && time.is_empty() && (weekdays == EVERY || !rest.is_empty()) {
        return Err(format!("\"{text}\" is not understood"));
    }
    let (years, months, days) = date_of(date)?;
    let (hours, minutes, seconds) = time_of(time)?;
    let (dom, dow) = days_of(&days, weekdays);
    let fields = [
        field(minutes, 0, 59),
        field(hours, 0, 23),
        dom,
        field(months, 1, 12),
        dow,
    ];
    let expression = match seconds {
        1 => fields.join(" "),
        set => format!("{} {}", field(set, 0, 59), fields.join(" ")),
    };
    Ok(Calendar {
        expression,
        timezone,
        years,
    })
}

/// `@N` is one single instant, in seconds since 1970; a weekday before it must be the instant's.
fn single(text: &str) -> Result<Option<String>, String> {
    let Some((before, seconds)) = text.split_once('@') else {
        return Ok(None);
    };
    let instant = (seconds.parse().ok()).and_then(|seconds| Timestamp::from_second(seconds).ok());
    let instant = instant.ok_or_else(|| format!("\"@{seconds}\" is not a number of seconds since 1970"))?;
    Ok(Some(format!(
        "{before}{}",
        instant.strftime("%Y-%m-%d %H:%M:%S UTC")
    )))
}

/// A zone stands last: `UTC`, or one that the machine knows.
fn zone(text: &str) -> (&str, Option<String>) {
    if let Some((body, last)) = text.rsplit_once(char::is_whitespace) {
        let named = last.starts_with(|c: char| c.is_ascii_alphabetic());
        if last.eq_ignore_ascii_case("UTC") {
            return (body.trim(), Some("UTC".to_owned()));
        }
        if named && TimeZone::get(last).is_ok() {
            return (body.trim(), Some(last.to_owned()));
        }
    }
    (text, None)
}

fn weekdays_of(text: &str) -> Result<u64, String> {
    let day = |name: &str| {
        let name = name.to_ascii_lowercase();
        let known = |day: &&str| {
            [&day[..3], *day]
                .iter()
                .any(|day| day.eq_ignore_ascii_case(&name))
        };
        (WEEKDAYS.iter().position(known)).ok_or_else(|| format!("\"{name}\" is not a weekday"))
    };
    // Monday is the first day of a range.
    let from_monday = |day: usize| (day + 6) % 7;
    let mut set = 0;
    for item in text.trim_end_matches(',').split(',') {
        let (low, high) = item
            .split_once("..")
            .or_else(|| item.split_once('-'))
            .unwrap_or((item, item));
        let (low, high) = (from_monday(day(low)?), from_monday(day(high)?));
        if low > high {
            return Err(format!("the range {item} goes backwards"));
        }
        for day in low..=high {
            set |= 1 << ((day + 1) % 7);
        }
    }
    Ok(set)
}

pub(super) type Years = Vec<(u32, u32)>;

fn date_of(text: &str) -> Result<(Years, u64, Days), String> {
    if text.is_empty() {
        return Ok((
            Years::new(),
            full(1, 12),
            Days {
                set: full(1, 31),
                from_end: false,
            },
        ));
    }
    let from_end = text.contains('~');
    let parts: Vec<&str> = text.split(['-', '~']).collect();
    let (year, month, day) = match parts[..] {
        [month, day] => ("*", month, day),
        [year, month, day] => (year, month, day),
        _ => return Err(format!("\"{text}\" is not a date")),
    };
    if text.find('~').is_some_and(|at| text[at..].contains('-')) {
        return Err(format!("\"{text}\" is not a date"));
    }
    let set = if from_end {
        last_days(day)?
    } else {
        chain(day, 1, 31, "day")?
    };
    Ok((
        years_of(year)?,
        chain(month, 1, 12, "month")?,
        Days { set, from_end },
    ))
}

/// `~07/1` counts towards the end of the month: bit n is the n-th last day.
fn last_days(text: &str) -> Result<u64, String> {
    let mut set = 0;
    for item in text.split(',') {
        let Some((start, step)) = item.split_once('/') else {
            set |= chain(item, 1, 31, "day")?;
            continue;
        };
        let (start, step) = (number(start, 1, 31, "day")?, number(step, 1, 31, "step")?);
        let mut day = start;
        loop {
            set |= 1 << day;
            match day.checked_sub(step) {
                Some(next) if next > 0 => day = next,
                _ => break,
            }
        }
    }
    Ok(set)
}

/// A list of years, ranges and steps, as ranges of years that follow each other.
fn years_of(text: &str) -> Result<Years, String> {
    if text == "*" {
        return Ok(Years::new());
    }
    let year = |text: &str| match number(text, 0, LAST_YEAR, "year")? {
        n @ 0..=69 => Ok(2000 + n),
        n @ 70..=99 => Ok(1900 + n),
        n @ 1970.. => Ok(n),
        n => Err(format!("{n} is not a year (1970 to {LAST_YEAR})")),
    };
    let mut ranges = Years::new();
    for year in values(text, LAST_YEAR, LAST_YEAR, year)? {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == year => *last = year,
            _ => ranges.push((year, year)),
        }
    }
    Ok(ranges)
}

fn time_of(text: &str) -> Result<(u64, u64, u64), String> {
    if text.is_empty() {
        return Ok((1, 1, 1));
    }
    let parts: Vec<&str> = text.split(':').collect();
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, "0"),
        [hour, minute, second] => (hour, minute, second),
        _ => return Err(format!("\"{text}\" is not a time of day")),
    };
    Ok((
        chain(hour, 0, 23, "hour")?,
        chain(minute, 0, 59, "minute")?,
        chain(&whole_seconds(second)?, 0, 59, "second")?,
    ))
}

/// Without fractions that are zero, `10.0/5.00`; others are refused. The dots of a range begin none.
fn whole_seconds(text: &str) -> Result<String, String> {
    let ranges = text.split("..").map(|part| {
        let mut parts = part.split('.');
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for fraction in parts {
            let rest = fraction.trim_start_matches('0');
            if fraction.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(
                    "it names fractions of a second, and what is due here is due at whole seconds".to_owned(),
                );
            }
            whole.push_str(rest);
        }
        Ok(whole)
    });
    Ok(ranges.collect::<Result<Vec<_>, _>>()?.join(".."))
}

/// A list of `*`, `n`, `n/step`, `a..b` and `a..b/step`, as a set of bits.
fn chain(text: &str, low: u32, high: u32, what: &str) -> Result<u64, String> {
    if text == "*" {
        return Ok(full(low, high));
    }
    let values = values(text, 99, high, |text| number(text, low, high, what))?;
    Ok(values.into_iter().fold(0, |set, value| set | 1 << value))
}

/// All values of such a list; a step without a range goes to the last one.
fn values(
    text: &str,
    longest_step: u32,
    last: u32,
    value: impl Fn(&str) -> Result<u32, String>,
) -> Result<BTreeSet<u32>, String> {
    let mut values = BTreeSet::new();
    for item in text.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(number(step, 1, longest_step, "step")?)),
            None => (item, None),
        };
        let (low, high) = match range.split_once("..") {
            Some((low, high)) => (value(low)?, value(high)?),
            None => (value(range)?, step.map_or(value(range)?, |_| last)),
        };
        if low > high {
            return Err(format!("the range {range} goes backwards"));
        }
        values.extend((low..=high).step_by(step.unwrap_or(1) as usize));
    }
    Ok(values)
}

fn number(text: &str, low: u32, high: u32, what: &str) -> Result<u32, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let found = text
        .parse::<u32>()
        .ok()
        .filter(|n| digits && (low..=high).contains(n));
    found.ok_or_else(|| format!("\"{text}\" is not a valid {what} ({low} to {high})"))
}
