//! Excluded days, and business days among the others.

use std::collections::BTreeSet;

use farmhand_core::definition::load;
use farmhand_core::document::Source;
use farmhand_core::due;
use farmhand_core::schedule::{Calendar, CalendarDates};
use jiff::civil::{Date, Weekday, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::at;

fn calendar(entries: &[&str], zone: &str) -> Calendar {
    CalendarDates::parse(entries)
        .unwrap()
        .in_zone(&TimeZone::get(zone).unwrap())
}

#[test]
fn both_ends_of_a_range_are_excluded_in_the_jobs_own_zone() {
    let calendar = calendar(
        &["2026-12-24..2026-12-26", "2027-01-01", "2026-12-27"],
        "Europe/Berlin",
    );
    let end = Some(at("2026-12-27T23:00:00Z"));
    assert_eq!(calendar.excluded_until(at("2026-12-23T22:59:59Z")), None);
    assert_eq!(calendar.excluded_until(at("2026-12-23T23:00:00Z")), end);
    assert_eq!(calendar.excluded_until(at("2026-12-27T22:59:59Z")), end);
    assert_eq!(calendar.excluded_until(at("2026-12-27T23:00:00Z")), None);
    assert_eq!(
        calendar.excluded_until(at("2027-01-01T12:00:00Z")),
        Some(at("2027-01-01T23:00:00Z"))
    );
}

#[test]
fn a_day_without_midnight_begins_after_the_gap() {
    let calendar = calendar(&["2018-11-04"], "America/Sao_Paulo");
    assert_eq!(calendar.excluded_until(at("2018-11-04T02:59:59Z")), None);
    assert_eq!(
        calendar.excluded_until(at("2018-11-04T03:00:00Z")),
        Some(at("2018-11-05T02:00:00Z"))
    );
}

#[test]
fn reversed_ranges_and_what_is_no_date_are_refused_all_at_once() {
    let entries = [
        "2026-12-26..2026-12-24",
        "2026-02-29",
        "soon",
        "2026-01-01T00:00:00",
        "2027-01-01",
    ];
    let errors = CalendarDates::parse(&entries).unwrap_err();
    assert_eq!(errors.iter().map(|e| e.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(
        errors[0].to_string(),
        "\"2026-12-26..2026-12-24\" runs backwards; write \"2026-12-24..2026-12-26\""
    );
}

/// Easter Sunday, by the anonymous Gregorian rule.
fn easter(year: i16) -> Date {
    let (a, b, c) = (year % 19, year / 100, year % 100);
    let d = (19 * a + b - b / 4 - (b - (b + 8) / 25 + 1) / 3 + 15) % 30;
    let e = (32 + 2 * (b % 4) + 2 * (c / 4) - d - c % 4) % 7;
    let m = (a + 11 * d + 22 * e) / 451;
    let month = (d + e - 7 * m + 114) / 31;
    date(year, month as i8, ((d + e - 7 * m + 114) % 31 + 1) as i8)
}

/// Ten years of holidays, which often are the last weekdays of a month or of a year.
fn holidays() -> Vec<Date> {
    let of_year = |year: i16| {
        let easter = easter(year);
        [
            date(year, 1, 1),
            easter - 2.days(),
            easter + 1.day(),
            date(year, 5, 1),
            easter + 39.days(),
            date(year, 10, 31),
            date(year, 12, 24),
            date(year, 12, 25),
            date(year, 12, 26),
            date(year, 12, 31),
        ]
    };
    (2026..=2035).flat_map(of_year).collect()
}

fn due_days(schedule: &str, calendar: &str, zone: &str) -> Vec<Date> {
    let text = format!(
        "{calendar}\n[job.x]\ncommand = ['x']\ncalendars = 'c'\nschedule = '{schedule}'\ntimezone = '{zone}'\n"
    );
    let source = Source {
        name: "j".to_owned(),
        text,
    };
    let spec = load(&[source]).unwrap().remove(0).spec;
    let (schedule, policy) = due::compile("x", &spec).unwrap();
    let next = |after: &Timestamp| due::next_run(&schedule, &policy, *after);
    let zone = TimeZone::get(zone).unwrap();
    std::iter::successors(next(&at("2025-12-31T23:59:59Z")), next)
        .take_while(|instant| *instant < at("2036-01-01T00:00:00Z"))
        .map(|instant| {
            assert_eq!(
                due::skipped_at(&policy, instant),
                None,
                "{instant}: a calendar's day"
            );
            zone.to_datetime(instant).date()
        })
        .collect()
}

#[test]
fn business_days_of_ten_years_are_those_that_a_walk_through_each_month_finds() {
    let holidays = holidays();
    let list: Vec<String> = holidays.iter().map(|day| format!("'{day}'")).collect();
    let calendar = format!(
        "[calendar.c]\nexclude = [{}, '2030-02-18..2030-03-05']",
        list.join(", ")
    );
    let closed: BTreeSet<Date> = (holidays.into_iter())
        .chain(date(2030, 2, 18).series(1.day()).take(16))
        .collect();
    let open =
        |day: &Date| !matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday) && !closed.contains(day);
    type Pick = fn(&[Date]) -> Vec<Date>;
    let rules: [(&str, Pick); 4] = [
        ("LB", |days| days.last().copied().into_iter().collect()),
        ("LB-2", |days| {
            days.iter().rev().nth(2).copied().into_iter().collect()
        }),
        ("1B", |days| days.first().copied().into_iter().collect()),
        ("10B,20B,23B", |days| {
            [9, 19, 22]
                .iter()
                .filter_map(|nth| days.get(*nth).copied())
                .collect()
        }),
    ];
    for (day, pick) in rules {
        let wanted: Vec<Date> = date(2026, 1, 1)
            .series(1.month())
            .take(120)
            .flat_map(|first| {
                let days: Vec<Date> = (first.series(1.day()))
                    .take(first.days_in_month() as usize)
                    .filter(open)
                    .collect();
                pick(&days)
            })
            .collect();
        assert!(wanted.len() >= 119, "{day}: {}", wanted.len());
        for zone in ["UTC", "Europe/Berlin"] {
            let schedule = format!("30 18 {day} * *");
            assert_eq!(due_days(&schedule, &calendar, zone), wanted, "{day} in {zone}");
        }
    }
}

#[test]
fn a_month_without_a_business_day_is_passed_over_and_a_calendar_of_all_days_ends_the_search() {
    let february = "[calendar.c]\nexclude = '2026-02-01..2026-02-28'";
    let days = due_days("0 8 LB * *", february, "UTC");
    assert_eq!(days[..2], [date(2026, 1, 30), date(2026, 3, 31)]);
    let never = "[calendar.c]\nexclude = '2000-01-01..2999-12-31'";
    assert!(due_days("0 8 LB * *", never, "UTC").is_empty());
    let include = "[calendar.c]\ninclude = ['2026-03-02..2026-03-10', '2026-05-02..2026-05-03']";
    assert_eq!(
        due_days("0 8 2B,LB * *", include, "UTC"),
        [date(2026, 3, 3), date(2026, 3, 10)]
    );
}
