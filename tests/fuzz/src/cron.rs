//! Expressions: lines of the first part, the zone, the name of the job, and from when on.

use std::time::Duration;

use farmhand_core::definition::DstPolicy;
use farmhand_core::schedule::{CalendarDates, ParseContext, Schedule};
use jiff::Timestamp;

use super::input::{number, parts, text};

/// Instants looked at.
const SOME: usize = 24;

pub fn run(data: &[u8]) {
    let parts = parts(data, 4);
    let expressions: Vec<&str> = text(parts[0]).split('\n').collect();
    let zone = match text(parts[1]).trim() {
        "" => "Europe/Berlin",
        zone => zone,
    };
    let from = start(text(parts[3]).trim(), number(data));
    let spread = Duration::from_secs(if number(parts[2]) & 1 == 1 { 3_600 } else { 0 });
    let with = |dst| {
        let context = ParseContext {
            job: text(parts[2]),
            timezone: zone,
            dst,
            spread,
        };
        Schedule::parse(&expressions, &context)
    };
    match with(DstPolicy::Once) {
        Ok(once) => {
            let others = [DstPolicy::Skip, DstPolicy::Both].map(with);
            let [Ok(skip), Ok(both)] = others else {
                panic!("the rule for clock changes decides what is an expression")
            };
            for schedule in [&once, &skip, &both] {
                sensible(schedule, from);
            }
            within(&skip, &once, from);
            within(&once, &both, from);
            let days: Vec<&str> = text(parts[1]).split(' ').collect();
            if let Ok(dates) = CalendarDates::parse(&days) {
                let _ = dates.in_zone(once.timezone());
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if let Some(at) = error.expression() {
                let expression = expressions[at.index];
                assert_eq!(at.expression, expression);
                assert!(
                    (1..=expression.chars().count() + 1).contains(&at.column),
                    "{at:?}"
                );
                assert!(!at.fix.is_empty() && !at.problem.is_empty());
                let _ = at.caret();
            }
        }
    }
}

/// A time that is given, or one that the input makes.
fn start(given: &str, seed: u64) -> Timestamp {
    let fallback = Timestamp::from_second((seed % 8_000_000_000) as i64 - 2_000_000_000);
    given.parse().or(fallback).expect("a time")
}

fn sensible(schedule: &Schedule, from: Timestamp) {
    let instants: Vec<Timestamp> = schedule.iter_after(from).take(SOME).collect();
    assert!(instants.iter().all(|t| *t > from && t.subsec_nanosecond() == 0));
    assert!(instants.is_sorted_by(|a, b| a < b), "{instants:?}");
    assert_eq!(schedule.next_after(from), instants.first().copied());
    assert!(schedule.has_instants() || instants.is_empty());
    assert!(!schedule.describe().is_empty());
    let second = jiff::SignedDuration::from_secs(1);
    for pair in instants.windows(2) {
        // Asked anew from any time between the two, the same one comes.
        assert_eq!(schedule.next_after(pair[0]), Some(pair[1]));
        let before = pair[1].checked_sub(second).expect("not the beginning of time");
        assert_eq!(schedule.next_after(before), Some(pair[1]));
    }
    if let (Some(first), Some(last)) = (instants.first(), instants.last()) {
        let between: Vec<Timestamp> = schedule.between(*first, *last).collect();
        assert_eq!(between, instants[..instants.len() - 1]);
    }
}

/// What fires when less is made up for fires when more is.
fn within(fewer: &Schedule, more: &Schedule, from: Timestamp) {
    let second = jiff::SignedDuration::from_secs(1);
    for instant in fewer.iter_after(from).take(SOME) {
        let before = instant.checked_sub(second).expect("not the beginning of time");
        assert_eq!(more.next_after(before), Some(instant));
    }
}
