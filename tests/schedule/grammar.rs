//! What is accepted, what is refused, and where the error points.

use std::collections::BTreeSet;
use std::time::Duration;

use farmhand_core::definition::DstPolicy;
use farmhand_core::schedule::{ParseContext, Schedule};

use super::{after, at, parse_in, utc};

/// (field, column, fix contains) of the error.
fn refused(expression: &str) -> (Option<&'static str>, usize, String) {
    let error = parse_in(expression, "UTC", DstPolicy::Once).expect_err(expression);
    let error = error.expression().expect("not a zone error").clone();
    assert_eq!(error.expression, expression);
    assert!(!error.fix.is_empty());
    (error.field, error.column, error.fix)
}

#[test]
fn an_error_names_field_column_and_fix() {
    let (field, column, fix) = refused("0 25 * * *");
    assert_eq!((field, column), (Some("hour"), 3));
    assert_eq!(fix, "hours are 0-23");
    assert_eq!(refused("* * 1,2,32 * *").1, 9);
    assert_eq!(refused("* * * JAN-FOO *").1, 11);
    assert_eq!(refused("*/0 * * * *").1, 3);
    assert_eq!(refused("* * * * MON#6").1, 13);
    assert_eq!(refused("  0\t25 * * *").1, 5);
    assert_eq!(refused("*   * * *").1, 10);
    assert_eq!(refused("* * * * * * *").1, 13);
    assert_eq!(refused("").1, 1);
    assert_eq!(refused("@dailyy").1, 1);
    assert_eq!(refused("@every 10x").1, 8);
    assert_eq!(refused("@daily 5").1, 8);
    assert_eq!(refused("0 ü * * *").1, 3);
    assert_eq!(
        refused("0 99999999999 * * *"),
        (Some("hour"), 3, "hours are 0-23".to_owned())
    );
}

#[test]
fn an_error_says_which_expression_of_a_list_it_means() {
    let error = Schedule::parse(&["@daily", "0 24 * * *"], &ParseContext::default()).unwrap_err();
    assert_eq!(error.expression().unwrap().index, 1);
    assert_eq!(
        error.to_string(),
        "schedule \"0 24 * * *\" (number 2 of the list): hour, column 3: 24 is out of range; hours are 0-23"
    );
    assert_eq!(error.expression().unwrap().caret(), "0 24 * * *\n  ^");
}

#[test]
fn an_unknown_zone_is_refused() {
    let error = parse_in("@daily", "Europe/Berln", DstPolicy::Once).unwrap_err();
    assert!(error.to_string().contains("Europe/Berln"), "{error}");
}

#[test]
fn what_can_never_fire_is_refused() {
    for expression in [
        "0 0 30 2 *",
        "0 0 30-31 FEB *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 30W 2 *",
        "0 0 31W 4 *",
        "0 0 L-30 4 *",
        "0 0 L-29 2 *",
        "0 0 31 4 */2",
        "0 0 0 31 2 *",
        "0 0 22B 2 *",
    ] {
        let (field, _, fix) = refused(expression);
        assert_eq!(field, Some("day-of-month"), "{expression}");
        assert!(fix.contains('L'), "{expression}");
    }
    for expression in [
        "0 0 31 2 1",
        "0 0 29 2 *",
        "0 0 29W 2 *",
        "0 0 L-28 2 *",
        "0 0 * 2 1#5",
        "0 0 29 2 */7",
    ] {
        assert!(
            utc(expression).next_after(at("2026-01-01T00:00:00Z")).is_some(),
            "{expression}"
        );
    }
}

#[test]
fn special_days_are_refused_inside_ranges_and_steps_and_a_bare_l_in_day_of_week() {
    for expression in [
        "0 0 1-L * *",
        "0 0 L/2 * *",
        "0 0 1-15W * *",
        "0 0 15W/2 * *",
        "0 0 L-0 * *",
        "0 0 L-31 * *",
        "0 0 32W * *",
        "0 0 W * *",
        "0 0 W15 * *",
        "0 0 0B * *",
        "0 0 24B * *",
        "0 0 LB-23 * *",
        "0 0 B * *",
        "0 0 1B-3B * *",
        "0 0 * * 1B",
        "0 0 1#2 * *",
        "0 0 * * L",
        "0 0 * * 1-5L",
        "0 0 * * 5L/2",
        "0 0 * * MON-FRI#2",
        "0 0 * * MON#2/2",
        "0 0 * * 1#0",
        "0 0 * * 1#6",
        "0 0 * * #1",
        "0 0 * * 1W",
        "0 0 * L *",
        "L 0 * * *",
    ] {
        refused(expression);
    }
}

#[test]
fn other_mistakes_are_refused() {
    for expression in [
        "H(10-5)/2 * * * *",
        "H(10) * * * *",
        "H-5 * * * *",
        "Hx * * * *",
        "H( * * * *",
        "0 9-5 * * *",
        "0 0 * * thu-tue/2",
        "? * * * *",
        "0 0 ?/2 * *",
        "0 0 * * friday",
        "0 0 * january *",
        "1,,2 * * * *",
        "1, * * * *",
        "1-2-3 * * * *",
        "+1 * * * *",
        "1/ * * * *",
        "* * * *",
        "@every",
        "@every 0s",
        "@every 500",
        "@every 1.5s",
        "@every -5s",
        "@every 400d",
        "@every 99999999999999999999h",
        "@",
    ] {
        refused(expression);
    }
    assert!(Schedule::parse(&["@continuous", "@daily"], &ParseContext::default()).is_err());
}

#[test]
fn sunday_has_two_numbers_and_weekdays_go_round() {
    let sundays = after(&utc("0 0 * * 0"), "2024-01-01T00:00:00Z", 20);
    for same in [
        "0 0 * * 7",
        "0 0 * * SUN",
        "0 0 * * 7,0",
        "0 0 * * 7-7",
        "0 0 * * sun-sun",
    ] {
        assert_eq!(after(&utc(same), "2024-01-01T00:00:00Z", 20), sundays, "{same}");
    }
    let weekend = after(&utc("0 0 * * 0,6"), "2024-01-01T00:00:00Z", 20);
    for same in ["0 0 * * 6-7", "0 0 * * sat-sun", "0 0 * * 6-0"] {
        assert_eq!(after(&utc(same), "2024-01-01T00:00:00Z", 20), weekend, "{same}");
    }
    let round = after(&utc("0 0 * * 5,6,0,1"), "2024-01-01T00:00:00Z", 20);
    assert_eq!(after(&utc("0 0 * * FRI-MON"), "2024-01-01T00:00:00Z", 20), round);
}

#[test]
fn both_day_fields_are_ored_unless_one_begins_with_a_star() {
    assert_eq!(
        after(&utc("0 0 13 * FRI"), "2026-01-31T00:00:00Z", 3),
        [
            "2026-02-06T00:00:00Z",
            "2026-02-13T00:00:00Z",
            "2026-02-20T00:00:00Z"
        ]
    );
    // Every odd day that is a Friday.
    assert_eq!(
        after(&utc("0 0 */2 * FRI"), "2026-01-31T00:00:00Z", 3),
        [
            "2026-02-13T00:00:00Z",
            "2026-02-27T00:00:00Z",
            "2026-03-13T00:00:00Z"
        ]
    );
}

#[test]
fn a_plus_before_the_weekday_joins_the_day_fields_by_and() {
    let cases = [
        ("0 0 13 * +FRI", ["2026-02-13", "2026-03-13", "2026-11-13"]),
        (
            "0 0 24-31 12 +MON-FRI",
            ["2026-12-24", "2026-12-25", "2026-12-28"],
        ),
        ("0 0 L-2,L * +MON", ["2026-08-31", "2026-09-28", "2026-11-30"]),
        ("0 0 1-7 * +1,FRIL", ["2026-01-05", "2026-02-02", "2026-03-02"]),
        ("0 0 * * +FRI", ["2026-01-02", "2026-01-09", "2026-01-16"]),
    ];
    for (expression, days) in cases {
        let want = days.map(|d| format!("{d}T00:00:00Z"));
        assert_eq!(
            after(&utc(expression), "2026-01-01T00:00:00Z", 3),
            want,
            "{expression}"
        );
    }
    let error = parse_in("0 0 8 * +FRI#1", "UTC", DstPolicy::Once).unwrap_err();
    assert!(error.to_string().contains("such a day (8 +FRI#1)"), "{error}");
    assert_eq!(refused("0 0 13 * +FOO").1, 11);
    assert_eq!(refused("0 0 13 * FRI,+SUN").1, 14);
    refused("0 0 13 +1 *");
}

#[test]
fn special_days_are_found() {
    let cases = [
        ("0 0 L * *", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("0 0 L-2 * *", ["2026-01-29", "2026-02-26", "2026-03-29"]),
        ("0 0 LW * *", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        ("0 0 1W * *", ["2026-01-01", "2026-02-02", "2026-03-02"]),
        ("0 0 15W * *", ["2026-01-15", "2026-02-16", "2026-03-16"]),
        ("0 0 31W * *", ["2026-01-30", "2026-03-31", "2026-05-29"]),
        ("0 0 * * FRIL", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("0 0 * * 7L", ["2026-01-25", "2026-02-22", "2026-03-29"]),
        ("0 0 * * MON#1", ["2026-01-05", "2026-02-02", "2026-03-02"]),
        ("0 0 * * 4#5", ["2026-01-29", "2026-04-30", "2026-07-30"]),
        ("0 0 1,L * *", ["2026-01-01", "2026-01-31", "2026-02-01"]),
        ("0 0 LB * *", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        ("0 0 LB-1 * *", ["2026-01-29", "2026-02-26", "2026-03-30"]),
        ("0 0 1B,3b * *", ["2026-01-01", "2026-01-05", "2026-02-02"]),
        ("0 0 23B * *", ["2026-07-31", "2026-12-31", "2027-03-31"]),
    ];
    for (expression, days) in cases {
        let want = days.map(|d| format!("{d}T00:00:00Z"));
        assert_eq!(
            after(&utc(expression), "2025-12-31T12:00:00Z", 3),
            want,
            "{expression}"
        );
    }
}

#[test]
fn hashed_values_are_stable_and_stay_in_their_range() {
    let of = |job: &str, expression: &str| {
        let context = ParseContext {
            job,
            ..ParseContext::default()
        };
        let schedule = Schedule::parse(&[expression], &context).unwrap();
        schedule
            .next_after(at("2026-01-01T00:00:00Z"))
            .unwrap()
            .to_string()
    };
    assert_eq!(of("backup", "H H * * *"), of("backup", "H H * * *"));
    // Pinned: a new version must not move everybody's jobs.
    assert_eq!(of("backup", "H H * * *"), "2026-01-01T20:28:00Z");
    let minutes: std::collections::BTreeSet<String> = (0..200)
        .map(|n| of(&format!("job-{n}"), "H(10-19) 3 * * *"))
        .collect();
    assert_eq!(minutes.len(), 10, "{minutes:?}");
    assert_eq!(minutes.first().unwrap(), "2026-01-01T03:10:00Z");
    assert_eq!(minutes.last().unwrap(), "2026-01-01T03:19:00Z");
    let context = ParseContext {
        job: "x",
        ..ParseContext::default()
    };
    let quarters = Schedule::parse(&["H/15 * * * *"], &context).unwrap();
    let first: Vec<_> = quarters.iter_after(at("2026-01-01T00:00:00Z")).take(9).collect();
    for pair in first.windows(2) {
        assert_eq!(pair[1].duration_since(pair[0]).as_secs(), 900);
    }
}

#[test]
fn an_interval_fires_at_the_same_instants_everywhere() {
    assert_eq!(
        after(&utc("@every 90s"), "2026-01-01T00:00:00.5Z", 2),
        ["2026-01-01T00:01:30Z", "2026-01-01T00:03:00Z"]
    );
    for (written, seconds) in [
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("2 weeks", 1_209_600),
        ("1min 30s", 90),
        ("1d", 86_400),
    ] {
        let schedule = utc(&format!("@every {written}"));
        let next: Vec<_> = schedule.iter_after(at("2026-01-01T00:00:00Z")).take(2).collect();
        assert_eq!(next[1].duration_since(next[0]).as_secs(), seconds, "{written}");
        assert_eq!(next[0].as_second() % seconds, 0, "{written}");
    }
}

#[test]
fn a_spread_moves_every_instant_by_one_fixed_offset() {
    let plain = utc("0 3 * * *");
    let context = ParseContext {
        job: "mail",
        spread: Duration::from_secs(600),
        ..ParseContext::default()
    };
    let spread = Schedule::parse(&["0 3 * * *"], &context).unwrap();
    let late = spread.iter_after(at("2026-01-01T03:00:00Z"));
    let early = plain.iter_after(at("2026-01-01T02:00:00Z"));
    let offsets = late
        .zip(early)
        .map(|(late, early)| late.duration_since(early).as_secs());
    let offsets: Vec<i64> = offsets.take(5).collect();
    assert!((1..600).contains(&offsets[0]), "{offsets:?}");
    assert_eq!(offsets, [offsets[0]; 5]);
}

#[test]
fn several_expressions_merge_and_an_instant_they_share_counts_once() {
    let list = ["0 */6 * * *", "0 12 * * *", "30 12 * * *", "@daily"];
    let schedule = Schedule::parse(&list, &ParseContext::default()).unwrap();
    assert_eq!(
        after(&schedule, "2026-01-01T00:00:00Z", 5),
        [
            "2026-01-01T06:00:00Z",
            "2026-01-01T12:00:00Z",
            "2026-01-01T12:30:00Z",
            "2026-01-01T18:00:00Z",
            "2026-01-02T00:00:00Z"
        ]
    );
}

#[test]
fn reboot_and_continuous_have_no_instants() {
    let reboot = utc("@reboot");
    assert!(reboot.fires_at_boot() && !reboot.has_instants());
    assert_eq!(reboot.next_after(at("2026-01-01T00:00:00Z")), None);
    let continuous = utc("@continuous");
    assert!(continuous.is_continuous() && !continuous.has_instants());
    let both = Schedule::parse(&["@reboot", "@daily"], &ParseContext::default()).unwrap();
    assert!(both.fires_at_boot() && both.has_instants());
}

#[test]
fn rare_days_are_found_decades_ahead() {
    // 29 February on a Sunday, across 2100, which is no leap year.
    assert_eq!(
        after(&utc("0 0 29 2 */7"), "2060-03-01T00:00:00Z", 2),
        ["2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z"]
    );
    assert_eq!(
        after(&utc("0 0 29 2 *"), "2096-03-01T00:00:00Z", 1),
        ["2104-02-29T00:00:00Z"]
    );
}

#[test]
fn a_spread_also_divides_a_second_among_jobs_and_no_instant_meets_the_next() {
    let noon = at("2026-03-01T12:00:00Z");
    let late = |job: &str, seconds, expression: &str| {
        let context = ParseContext {
            job,
            spread: Duration::from_secs(seconds),
            ..ParseContext::default()
        };
        let schedule = Schedule::parse(&[expression], &context).unwrap();
        schedule.late_at(schedule.next_after(noon).unwrap())
    };
    let named: Vec<String> = (0..1_000).map(|n| format!("job-{n}")).collect();
    let places: BTreeSet<Duration> = named.iter().map(|job| late(job, 5, "@every 5s")).collect();
    let expected: BTreeSet<Duration> = (0..20).map(|n| Duration::from_millis(50 * n)).collect();
    assert_eq!(places, expected);
    for job in &named {
        assert_eq!(
            late(job, 5, "@every 5s"),
            late(job, 600, "0 12 * * *"),
            "fixed by its name"
        );
        assert_eq!(late(job, 0, "@every 5s"), Duration::ZERO, "without a spread");
        assert_eq!(
            late(job, 5, "@every 1s"),
            Duration::ZERO,
            "the next is due by then"
        );
    }
}
