//! A schedule in plain words.

use super::civil::{MONTHS, WEEKDAYS};
use super::cron::{Cron, Days};
use super::parse::Rule;

const ALL_HOURS: u32 = 0xff_ffff;
const ALL_SIXTY: u64 = (1 << 60) - 1;
const ALL_MONTHS: u16 = 0x1ffe;
/// Times of day beyond this many are described by hours and minutes instead.
const TIMES_LISTED: u32 = 6;

pub(super) fn rule(rule: &Rule) -> String {
    match rule {
        Rule::Cron(cron) => self::cron(cron),
        Rule::Every(seconds) => format!("every {}", span(*seconds)),
        Rule::Reboot => "once per boot of each node".to_owned(),
        Rule::Continuous => "again as soon as it has ended".to_owned(),
    }
}

fn cron(cron: &Cron) -> String {
    let mut parts = vec![times(cron)];
    parts.extend(days(&cron.days));
    if cron.month != ALL_MONTHS {
        parts.push(format!("in {}", named(u64::from(cron.month) >> 1, &MONTHS)));
    }
    parts.join(" ")
}

fn times(cron: &Cron) -> String {
    let listed = cron.hour.count_ones() * cron.minute.count_ones() * cron.second.count_ones();
    if listed <= TIMES_LISTED {
        return format!("at {}", and(clock_times(cron)));
    }
    let hours = match cron.hour {
        ALL_HOURS => String::new(),
        hours => match run(hours.into()) {
            Some((first, last)) => format!(" from {first:02}:00 to {last:02}:59"),
            None => format!(" in the hours {}", and(numbers(hours.into()))),
        },
    };
    let minutes = match (steps(cron.minute), cron.second) {
        (_, seconds) if seconds != 1 => return format!("{}{hours}", within_minutes(cron)),
        (Some(1), _) => "every minute".to_owned(),
        (Some(step), _) => format!("every {step} minutes"),
        (None, _) if cron.hour == ALL_HOURS => format!("at {} past every hour", minutes(cron.minute)),
        (None, _) => format!("at {} past the hour", minutes(cron.minute)),
    };
    minutes + &hours
}

fn within_minutes(cron: &Cron) -> String {
    let seconds = match steps(cron.second) {
        Some(1) => "every second".to_owned(),
        Some(step) => format!("every {step} seconds"),
        None => format!("at second {}", and(numbers(cron.second))),
    };
    match steps(cron.minute) {
        _ if cron.minute == ALL_SIXTY => seconds,
        Some(step) => format!("{seconds} of every {step} minutes"),
        None => format!("{seconds} of {}", minutes(cron.minute)),
    }
}

fn minutes(set: u64) -> String {
    let word = if set.count_ones() == 1 {
        "minute"
    } else {
        "minutes"
    };
    match run(set).filter(|_| set.count_ones() > 2) {
        Some((first, last)) => format!("{word} {first} to {last}"),
        None => format!("{word} {}", and(numbers(set))),
    }
}

fn clock_times(cron: &Cron) -> Vec<String> {
    let mut times = Vec::new();
    for hour in bits(cron.hour.into()) {
        for minute in bits(cron.minute) {
            for second in bits(cron.second) {
                times.push(match cron.second {
                    1 => format!("{hour:02}:{minute:02}"),
                    _ => format!("{hour:02}:{minute:02}:{second:02}"),
                });
            }
        }
    }
    times
}

fn days(days: &Days) -> Option<String> {
    let of_month = and(days_of_month(days));
    match (of_month.is_empty(), days.dow == 0x7f) {
        (true, true) => None,
        // Either is enough, and one of them is every day.
        (true, _) | (_, true) if !days.both => None,
        // Every day is nothing to say beside the other.
        (false, true) => Some(format!("on {of_month}")),
        (true, false) => Some(format!("on {}", weekdays(days))),
        (false, false) if days.both => Some(format!("on {of_month} if it is {}", a_weekday(days))),
        (false, false) => Some(format!("on {of_month} and on {}", weekdays(days))),
    }
}

/// "Mondays and Fridays".
fn weekdays(days: &Days) -> String {
    match whole(days) {
        Some(0b011_1110) => "weekdays".to_owned(),
        Some(0b100_0001) => "weekends".to_owned(),
        _ => and(days_of_week(days, |day| format!("{day}s"))),
    }
}

/// "a Monday or a Friday".
fn a_weekday(days: &Days) -> String {
    match whole(days) {
        Some(0b011_1110) => "a weekday".to_owned(),
        _ => joined(days_of_week(days, |day| format!("a {day}")), "or"),
    }
}

/// The weekdays, if each of them counts whichever week of the month it is in.
fn whole(days: &Days) -> Option<u8> {
    (days.dow_last == 0 && days.dow_nth == 0).then_some(days.dow)
}

fn days_of_month(days: &Days) -> Vec<String> {
    if days.dom == u32::MAX - 1 {
        return Vec::new();
    }
    let mut list = Vec::new();
    match run(days.dom.into()).filter(|_| days.dom.count_ones() > 2) {
        Some((first, last)) => list.push(format!("the {} to the {}", nth(first), nth(last))),
        None => list.extend(bits(days.dom.into()).map(|day| format!("the {}", nth(day)))),
    }
    for day in bits(days.dom_near.into()) {
        list.push(match day {
            0 => "the last weekday of the month".to_owned(),
            day => format!("the weekday nearest to the {}", nth(day)),
        });
    }
    list.extend(bits(days.dom_business.into()).map(|n| format!("the {} business day of the month", nth(n))));
    for (set, what) in [
        (days.dom_business_from_last, "business day"),
        (days.dom_from_last, "day"),
    ] {
        list.extend(bits(set.into()).map(|back| match back {
            0 => format!("the last {what} of the month"),
            1 => format!("the last {what} but one of the month"),
            back => format!("the last {what} but {back} of the month"),
        }));
    }
    list
}

/// Each of them; `one` says a weekday that comes every week.
fn days_of_week(days: &Days, one: fn(&str) -> String) -> Vec<String> {
    let name = |dow: u32| WEEKDAYS[dow as usize % 7];
    let mut list = Vec::new();
    // Monday first, as people count.
    let from_monday = u64::from(days.dow >> 1 | (days.dow & 1) << 6);
    match run(from_monday).filter(|_| days.dow.count_ones() > 2) {
        Some((first, last)) => list.push(format!("{} to {}", name(first + 1), name(last + 1))),
        None => list.extend(bits(from_monday).map(|dow| one(name(dow + 1)))),
    }
    for k in 0..5 {
        for dow in bits(days.dow_nth >> (8 * k) & 0x7f) {
            list.push(format!("the {} {} of the month", nth(k + 1), name(dow)));
        }
    }
    for dow in bits(days.dow_last.into()) {
        list.push(format!("the last {} of the month", name(dow)));
    }
    list
}

fn nth(n: u32) -> String {
    let ending = match (n % 10, n % 100) {
        (1, 1 | 21 | 31) => "st",
        (2, 2 | 22) => "nd",
        (3, 3 | 23) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

fn named(set: u64, names: &[&str]) -> String {
    match run(set).filter(|_| set.count_ones() > 2) {
        Some((first, last)) => format!("{} to {}", names[first as usize], names[last as usize]),
        None => and(bits(set).map(|n| names[n as usize].to_owned()).collect()),
    }
}

fn numbers(set: u64) -> Vec<String> {
    bits(set).map(|n| n.to_string()).collect()
}

fn bits(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |n| set & (1 << n) != 0)
}

/// First and last, when the set has no holes.
fn run(set: u64) -> Option<(u32, u32)> {
    if set == 0 {
        return None;
    }
    let (first, last) = (set.trailing_zeros(), 63 - set.leading_zeros());
    (set.count_ones() == last - first + 1).then_some((first, last))
}

/// The n of "every n", when the values from 0 on are n apart all the way round the sixty.
fn steps(set: u64) -> Option<u32> {
    let count = set.count_ones();
    if count < 2 || set & 1 == 0 || 60 % count != 0 {
        return None;
    }
    let step = 60 / count;
    bits(set).all(|n| n.is_multiple_of(step)).then_some(step)
}

fn and(list: Vec<String>) -> String {
    joined(list, "and")
}

fn joined(mut list: Vec<String>, word: &str) -> String {
    let Some(last) = list.pop() else {
        return String::new();
    };
    if list.is_empty() {
        last
    } else {
        format!("{} {word} {last}", list.join(", "))
    }
}

/// Seconds as `1h 30m`.
pub(super) fn span(seconds: i64) -> String {
    let parts = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let mut rest = seconds;
    let mut text = Vec::new();
    for (name, size) in parts {
        if rest / size > 0 {
            text.push(format!("{}{name}", rest / size));
        }
        rest %= size;
    }
    text.join(" ")
}
