//! Excluded days.

use farmhand_core::schedule::{Calendar, CalendarDates};
use jiff::tz::TimeZone;

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
