//! The missed and fire decision.

use std::time::{Duration, Instant};

use farmhand_core::definition::{CatchUp, JobSpec, Missed};
use farmhand_core::due::{self, DuePolicy, FirePlan, SkipFold, SkipReason};
use farmhand_core::schedule::{CalendarDates, Schedule};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::{at, utc};

fn policy(runs: Missed) -> DuePolicy {
    limited(runs, 100, None)
}

/// Within so many seconds.
fn limited(runs: Missed, max: u32, within: Option<u64>) -> DuePolicy {
    DuePolicy {
        catch_up: CatchUp {
            runs,
            max,
            within: within.map(Duration::from_secs),
        },
        ..DuePolicy::default()
    }
}

fn fold(reason: SkipReason, first: &str, last: &str, count: i64) -> SkipFold {
    SkipFold {
        reason,
        first: at(first),
        last: at(last),
        count,
    }
}

fn hourly(missed: DuePolicy, now: &str) -> FirePlan {
    due::plan(&utc("@hourly"), &missed, at("2026-03-01T01:00:00Z"), at(now))
}

#[test]
fn an_instant_fired_in_time_runs_whatever_missed_says() {
    for missed in [Missed::Latest, Missed::All, Missed::Skip] {
        let plan = hourly(policy(missed), "2026-03-01T01:00:02Z");
        assert_eq!(plan.due, [at("2026-03-01T01:00:00Z")]);
        assert_eq!(plan.following, Some(at("2026-03-01T02:00:00Z")));
        assert!(plan.skipped.is_empty());
    }
}

#[test]
fn nothing_is_decided_before_it_is_due() {
    let plan = hourly(policy(Missed::Latest), "2026-03-01T00:59:59.999Z");
    assert_eq!(plan.following, Some(at("2026-03-01T01:00:00Z")));
    assert!(plan.due.is_empty() && plan.skipped.is_empty());
}

#[test]
fn latest_runs_the_newest_and_folds_the_rest() {
    let plan = hourly(policy(Missed::Latest), "2026-03-01T05:30:00Z");
    assert_eq!(plan.due, [at("2026-03-01T05:00:00Z")]);
    assert_eq!(
        plan.skipped,
        [fold(
            SkipReason::Missed,
            "2026-03-01T01:00:00Z",
            "2026-03-01T04:00:00Z",
            4
        )]
    );
    assert_eq!(plan.following, Some(at("2026-03-01T06:00:00Z")));
}

#[test]
fn latest_with_an_age_limit_runs_nothing_that_is_older() {
    let limited = limited(Missed::Latest, 100, Some(600));
    let plan = hourly(limited.clone(), "2026-03-01T05:30:00Z");
    assert!(plan.due.is_empty());
    assert_eq!(plan.skipped[0].count, 5);
    assert_eq!(
        hourly(limited, "2026-03-01T05:10:00Z").due,
        [at("2026-03-01T05:00:00Z")]
    );
}

#[test]
fn all_runs_the_newest_up_to_its_ceiling_and_age() {
    let plan = hourly(policy(Missed::All), "2026-03-01T05:30:00Z");
    assert_eq!(plan.due.len(), 5);
    let plan = hourly(limited(Missed::All, 2, None), "2026-03-01T05:30:00Z");
    assert_eq!(plan.due, [at("2026-03-01T04:00:00Z"), at("2026-03-01T05:00:00Z")]);
    assert_eq!(plan.skipped[0].count, 3);
    let plan = hourly(limited(Missed::All, 100, Some(2 * 3600)), "2026-03-01T05:30:00Z");
    assert_eq!(plan.due, [at("2026-03-01T04:00:00Z"), at("2026-03-01T05:00:00Z")]);
}

#[test]
fn skip_runs_nothing_that_is_late() {
    let plan = hourly(policy(Missed::Skip), "2026-03-01T05:30:00Z");
    assert!(plan.due.is_empty());
    assert_eq!(plan.skipped[0].count, 5);
    assert_eq!(
        hourly(policy(Missed::Skip), "2026-03-01T05:00:05Z").due,
        [at("2026-03-01T05:00:00Z")]
    );
}

#[test]
fn excluded_days_are_recorded_as_such_and_do_not_hide_the_latest_run() {
    let dates = CalendarDates::parse(&["2026-03-02"]).unwrap();
    let policy = DuePolicy {
        calendar: dates.in_zone(&TimeZone::UTC),
        ..policy(Missed::Latest)
    };
    let plan = due::plan(
        &utc("0 */8 * * *"),
        &policy,
        at("2026-03-01T00:00:00Z"),
        at("2026-03-02T20:00:00Z"),
    );
    assert_eq!(plan.due, [at("2026-03-01T16:00:00Z")]);
    assert_eq!(
        plan.skipped,
        [
            fold(
                SkipReason::Missed,
                "2026-03-01T00:00:00Z",
                "2026-03-01T08:00:00Z",
                2
            ),
            fold(
                SkipReason::Calendar,
                "2026-03-02T00:00:00Z",
                "2026-03-02T16:00:00Z",
                3
            ),
        ]
    );
}

#[test]
fn a_schedule_ends_at_its_end_and_begins_at_its_start() {
    let window = DuePolicy {
        start: Some(at("2026-03-01T00:00:00Z")),
        end: Some(at("2026-03-01T03:00:00Z")),
        ..policy(Missed::All)
    };
    let hourly = utc("@hourly");
    assert_eq!(
        due::next_run(&hourly, &window, at("2026-01-01T00:00:00Z")),
        Some(at("2026-03-01T00:00:00Z"))
    );
    assert_eq!(
        due::next_run(&hourly, &window, at("2026-03-01T01:00:00Z")),
        Some(at("2026-03-01T02:00:00Z"))
    );
    assert_eq!(due::next_run(&hourly, &window, at("2026-03-01T02:00:00Z")), None);
    let plan = due::plan(
        &hourly,
        &window,
        at("2026-03-01T00:00:00Z"),
        at("2026-03-01T02:00:01Z"),
    );
    assert_eq!((plan.due.len(), plan.following), (3, None));
    let late = due::plan(
        &hourly,
        &window,
        at("2026-03-01T05:00:00Z"),
        at("2026-03-01T05:00:01Z"),
    );
    assert_eq!(
        late.skipped,
        [fold(
            SkipReason::Ended,
            "2026-03-01T05:00:00Z",
            "2026-03-01T05:00:00Z",
            1
        )]
    );
}

#[test]
fn a_week_of_a_per_second_job_folds_into_one_record_quickly() {
    let (seen, now) = (at("2026-03-01T00:00:00Z"), at("2026-03-08T00:00:00.5Z"));
    let started = Instant::now();
    let plan = due::plan(&utc("* * * * * *"), &policy(Missed::Latest), seen, now);
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(plan.due, [at("2026-03-08T00:00:00Z")]);
    assert_eq!(
        plan.skipped,
        [fold(
            SkipReason::Missed,
            "2026-03-01T00:00:00Z",
            "2026-03-07T23:59:59Z",
            604_800
        )]
    );
}

#[test]
fn a_month_of_a_per_second_job_is_decided_in_parts_that_run_only_the_latest() {
    let schedule = utc("* * * * * *");
    let now = at("2026-03-31T00:00:00.5Z");
    let (mut seen, mut due, mut skipped, mut plans) = (at("2026-03-01T00:00:00Z"), Vec::new(), 0, 0);
    while seen <= now {
        let plan = due::plan(&schedule, &policy(Missed::Latest), seen, now);
        due.extend(plan.due);
        skipped += plan.skipped.iter().map(|f| f.count).sum::<i64>();
        seen = plan.following.unwrap();
        plans += 1;
    }
    assert_eq!(due, [at("2026-03-31T00:00:00Z")]);
    assert_eq!(skipped, 30 * 86_400);
    assert!(plans > 1, "{plans}");
}

#[test]
fn a_stored_definition_compiles() {
    let spec = JobSpec {
        schedule: vec!["0 3 * * *".to_owned()],
        timezone: "Europe/Berlin".to_owned(),
        start: Some("2026-12-01T00:00:00Z".to_owned()),
        ..JobSpec::default()
    };
    let (schedule, policy) = due::compile("backup", &spec).unwrap();
    assert_eq!(
        due::next_run(&schedule, &policy, at("2026-01-01T00:00:00Z")),
        Some(at("2026-12-01T02:00:00Z"))
    );
    let broken = JobSpec {
        end: Some("soon".to_owned()),
        ..spec
    };
    assert!(
        due::compile("backup", &broken)
            .unwrap_err()
            .to_string()
            .contains("soon")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_instant_up_to_now_is_decided_exactly_once(
        runs in prop_oneof![Just(Missed::Latest), Just(Missed::All), Just(Missed::Skip)],
        max in 1u32..6,
        within in proptest::option::of(0u64..20_000),
        every in prop_oneof![Just("*/7 * * * *"), Just("13,45 */2 * * *"), Just("*/20 0-3 * * * *")],
        seen in 1_772_300_000i64..1_772_400_000,
        absence in 0i64..100_000,
        excluded in any::<bool>(),
        end_after in proptest::option::of(-1000i64..100_000),
    ) {
        let schedule: Schedule = utc(every);
        let seen = schedule.next_after(Timestamp::from_second(seen).unwrap()).unwrap();
        let now = seen + SignedDuration::from_secs(absence);
        let dates: &[&str] = if excluded { &["2026-03-01"] } else { &[] };
        let policy = DuePolicy {
            end: end_after.map(|s| seen + SignedDuration::from_secs(s)),
            calendar: CalendarDates::parse(dates).unwrap().in_zone(&TimeZone::UTC),
            ..limited(runs, max, within)
        };
        let plan = due::plan(&schedule, &policy, seen, now);

        let mut want: Vec<Timestamp> = vec![seen];
        want.extend(
            schedule.iter_after(seen).take_while(|t| *t <= now && policy.end.is_none_or(|e| *t < e)),
        );
        let following = schedule.next_after(now).filter(|t| policy.end.is_none_or(|e| *t < e));
        prop_assert_eq!(plan.following, following);

        // Walk through the instants, taking each from the runs or from the fold that holds it.
        let (mut made, mut folds) = (plan.due.iter().peekable(), plan.skipped.iter().peekable());
        let mut left = 0;
        for instant in &want {
            if left == 0 && made.peek() == Some(&instant) {
                made.next();
                continue;
            }
            let fold = folds.peek().expect("an instant that is neither run nor skipped");
            if left == 0 {
                prop_assert_eq!(fold.first, *instant);
                left = fold.count;
            }
            left -= 1;
            if left == 0 {
                prop_assert_eq!(fold.last, *instant);
                folds.next();
            }
        }
        prop_assert!(made.next().is_none() && folds.next().is_none() && left == 0);

        let limit = if runs == Missed::All { max as usize } else { 1 };
        prop_assert!(plan.due.len() <= limit);
        for run in &plan.due {
            let age = now.duration_since(*run).unsigned_abs();
            prop_assert!(policy.catch_up.within.is_none_or(|w| age <= w.max(due::ON_TIME)));
            prop_assert!(runs != Missed::Skip || age <= due::ON_TIME);
            prop_assert!(policy.calendar.excluded_until(*run).is_none());
        }
    }
}

#[test]
fn a_pause_skips_what_fell_into_it_and_says_what_comes_after() {
    let policy = DuePolicy {
        end: Some(at("2026-03-01T06:30:00Z")),
        ..policy(Missed::All)
    };
    let after = |from, now| due::after_pause(&utc("@hourly"), &policy, at(from), at(now));
    // The last one only just, and not run for that.
    let (following, fell) = after("2026-03-01T02:00:00Z", "2026-03-01T05:00:01Z");
    assert_eq!(following, Some(at("2026-03-01T06:00:00Z")));
    assert_eq!(
        fell,
        [fold(
            SkipReason::Paused,
            "2026-03-01T03:00:00Z",
            "2026-03-01T05:00:00Z",
            3
        )]
    );
    assert_eq!(after("2026-03-01T05:10:00Z", "2026-03-01T05:20:00Z").1, []);
    let (following, fell) = after("2026-03-01T05:10:00Z", "2026-03-02T00:00:00Z");
    assert_eq!((following, fell[0].count), (None, 1));
}
