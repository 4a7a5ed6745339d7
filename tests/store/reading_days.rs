//! The days of a job: in its zone, whole days also when the clocks change, counted by state.

use std::collections::BTreeMap;

use farmhand_core::run::RunState;
use farmhand_store::reading::{self, JobDays, RunFilter};
use farmhand_tests::pg::Client;
use jiff::Timestamp;

use super::fixture::spec;
use super::reading::{farm, page};

/// Runs of `job` that ended so at each instant: each took `took` seconds, and waited `waited` seconds before.
async fn ended(sql: &Client, job: &str, state: &str, at: &[&str], took: u32, waited: u32) {
    for at in at {
        let started = format!("'{at}'::timestamptz - interval '{took} s'");
        sql.exec(&format!(
            "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, reason, \
             ended_by, attempt, retries, takeovers, params, created_at, started_at, finished_at, first_due, last_due) \
             SELECT coalesce(max(h.run_id), 0) + 1, '{job}', 1, 'scheduled', 0, 1, '{at}', {started} - interval '{waited} s', \
             '{state}', 'x', 'holder', 1, 0, 0, '{{}}', '{at}', CASE WHEN '{state}' <> 'skipped' THEN {started} END, '{at}', \
             '{at}', '{at}' FROM farmhand.run_history h"
        )).await;
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Those days that have runs, by their date.
fn counted(days: &JobDays) -> BTreeMap<String, i64> {
    (days.days.iter().filter(|day| day.all() > 0))
        .map(|day| (day.day.to_string(), day.all()))
        .collect()
}

fn hours(days: &JobDays, date: &str) -> i64 {
    let day = days.days.iter().find(|day| day.day.to_string() == date).unwrap();
    day.until.duration_since(day.since).as_hours()
}

#[tokio::test]
async fn a_run_counts_on_the_day_it_ended_in_the_zone_of_the_job_when_the_clocks_change_too() {
    let (farm, db) = farm().await;
    // The last and the first instant of days: around the night that has 23 hours, and the one that has 25.
    let spring = [
        "2026-03-28T22:59:59Z",
        "2026-03-28T23:00:00Z",
        "2026-03-29T21:59:59Z",
        "2026-03-29T22:00:00Z",
    ];
    ended(&farm.sql, "a", "succeeded", &spring, 1, 0).await;
    let autumn = [
        "2026-10-24T21:59:59Z",
        "2026-10-24T22:00:00Z",
        "2026-10-25T22:59:59Z",
        "2026-10-25T23:00:00Z",
    ];
    ended(&farm.sql, "a", "succeeded", &autumn, 1, 0).await;
    let read = async |zone: &str, now: &str| reading::days_in(&db, "a", zone, at(now), 90).await.unwrap();
    let expected = |dates: [&str; 3], counts: [i64; 3]| -> BTreeMap<String, i64> {
        (dates.iter().map(|date| (*date).to_owned()).zip(counts)).collect()
    };

    let berlin = read("Europe/Berlin", "2026-04-02T10:00:00Z").await;
    let days = ["2026-03-28", "2026-03-29", "2026-03-30"];
    assert_eq!(counted(&berlin), expected(days, [1, 2, 1]));
    assert_eq!((hours(&berlin, days[0]), hours(&berlin, days[1])), (24, 23));
    assert_eq!(berlin.days.len(), 90);
    assert_eq!(berlin.days[89].day.to_string(), "2026-04-02");
    let berlin = read("Europe/Berlin", "2026-11-01T10:00:00Z").await;
    let days = ["2026-10-24", "2026-10-25", "2026-10-26"];
    assert_eq!(counted(&berlin), expected(days, [1, 2, 1]));
    assert_eq!(hours(&berlin, days[1]), 25);

    // A quarter of an hour off, and a zone that nobody knows.
    let nepal = read("Asia/Kathmandu", "2026-04-02T10:00:00Z").await;
    assert_eq!(nepal.days[89].since, at("2026-04-01T18:15:00Z"));
    assert_eq!(counted(&nepal).values().sum::<i64>(), 4);
    assert_eq!(read("Nowhere/Else", "2026-04-02T10:00:00Z").await.timezone, "UTC");
    // Where a day begins at one in the morning, because midnight is left out.
    let cairo = read("Africa/Cairo", "2026-04-24T12:00:00Z").await;
    assert_eq!(
        (cairo.days[89].since, hours(&cairo, "2026-04-24")),
        (at("2026-04-23T22:00:00Z"), 23)
    );
    for pair in cairo.days.windows(2) {
        assert_eq!(pair[0].until, pair[1].since, "days follow each other");
    }
}

#[tokio::test]
async fn a_day_has_as_many_runs_as_the_list_of_runs_between_its_ends() {
    let (farm, db) = farm().await;
    farm.exec(
        "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, reason, \
         ended_by, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due) \
         SELECT n, CASE WHEN n % 3 = 0 THEN 'other' ELSE 'a' END, 1, 'scheduled', 0, 1, t, t, \
         CASE WHEN n % 7 = 0 THEN 'failed' ELSE 'succeeded' END, 'x', 'holder', 1, 0, 0, '{}', t, t, t, t \
         FROM generate_series(1, 400) n, \
         LATERAL (SELECT '2026-03-24T00:00:00Z'::timestamptz + n * interval '31 minutes') AS x(t)"
    ).await;
    for zone in ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        let days = reading::days_in(&db, "a", zone, at("2026-04-02T00:00:00Z"), 12)
            .await
            .unwrap();
        assert!(counted(&days).len() >= 9, "{zone}: {days:?}");
        for day in &days.days {
            let filter = RunFilter {
                job: Some("a".to_owned()),
                since: Some(day.since),
                until: Some(day.until),
                ..RunFilter::default()
            };
            let listed = reading::runs(&db, &filter, &page(None, 200)).await.unwrap().items;
            let bad = listed.iter().filter(|run| run.state == RunState::Failed).count();
            assert_eq!(
                (day.all(), day.bad()),
                (i64::try_from(listed.len()).unwrap(), i64::try_from(bad).unwrap()),
                "{zone} {}",
                day.day
            );
        }
    }
}

#[tokio::test]
async fn days_have_the_worst_end_late_runs_rates_and_durations_with_outliers() {
    let (farm, db) = farm().await;
    farm.job("a", spec(), None).await;
    let sql = &farm.sql;
    let nights: Vec<String> = (1..=30)
        .map(|day| format!("2026-06-{day:02}T02:00:00Z"))
        .collect();
    let nights: Vec<&str> = nights.iter().map(String::as_str).collect();
    ended(sql, "a", "succeeded", &nights[..28], 10, 1).await;
    ended(sql, "a", "succeeded", &nights[28..29], 100, 1).await;
    ended(sql, "a", "succeeded", &nights[29..], 12, 61).await;
    ended(
        sql,
        "a",
        "failed",
        &["2026-06-01T03:00:00Z", "2026-06-28T03:00:00Z"],
        900,
        0,
    )
    .await;
    ended(sql, "a", "lost", &["2026-06-28T04:00:00Z"], 900, 0).await;
    ended(sql, "a", "cancelled", &["2026-06-27T03:00:00Z"], 1, 0).await;
    ended(sql, "a", "skipped", &["2026-06-26T03:00:00Z"], 1, 0).await;
    sql.exec("UPDATE farmhand.run_history SET count = 40 WHERE state = 'skipped'")
        .await;

    let days = reading::days_in(&db, "a", "UTC", at("2026-06-30T12:00:00Z"), 90)
        .await
        .unwrap();
    let day = |n: usize| &days.days[90 - 31 + n];
    assert_eq!(day(30).day.to_string(), "2026-06-30");
    let worst = [25, 26, 27, 28, 29, 30].map(|n| day(n).worst.unwrap());
    assert_eq!(
        worst,
        [
            RunState::Succeeded,
            RunState::Skipped,
            RunState::Cancelled,
            RunState::Failed,
            RunState::Succeeded,
            RunState::Succeeded
        ]
    );
    assert_eq!(days.days[0].worst, None);
    assert_eq!(
        (day(26).skipped, day(28).lost, day(28).bad()),
        (40, 1, 2),
        "a fold counts as what it holds"
    );
    assert_eq!(
        (day(29).late, day(30).late),
        (0, 1),
        "it began more than 60 s after it was ready"
    );
    let rates: Vec<_> = (days.rates.iter())
        .map(|rate| (rate.days, rate.succeeded, rate.failed, rate.permille))
        .collect();
    assert_eq!(
        rates,
        [
            (7, 7, 2, Some(777)),
            (30, 30, 3, Some(909)),
            (90, 30, 3, Some(909))
        ]
    );
    let all = days.durations.unwrap();
    assert_eq!(
        (all.p50_ms, all.p95_ms, all.longest_ms, all.count),
        (10_000, 12_000, 100_000, 30),
        "of successes only"
    );
    assert_eq!([28, 29, 30].map(|n| day(n).outlier), [false, true, false]);
    assert_eq!(day(28).durations.unwrap().longest_ms, 10_000);
    assert_eq!(days.counted_from, None);

    let week = reading::days_in(&db, "a", "UTC", at("2026-06-30T12:00:00Z"), 7)
        .await
        .unwrap();
    assert_eq!(
        (week.days.len(), week.days[0].day.to_string().as_str()),
        (7, "2026-06-24")
    );
    assert!(reading::days(&db, "nothing", 90).await.unwrap().is_none());
    let today = reading::days(&db, "a", 90).await.unwrap().unwrap();
    assert_eq!(today.timezone, "UTC");
}
