//! How the runs of a job went, day by day.

use farmhand_core::document::from_millis;
use farmhand_core::durations::{Usual, success_permille};
use farmhand_core::run::RunState;
use farmhand_core::verdict::LATE;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::jobs;

/// Days of one answer, at most.
pub const MOST_DAYS: usize = 90;
/// The newest runs that are looked at: more than those of a job that runs every five minutes for 90 days.
const LOOKED_AT: i64 = 30_000;
/// For so many days, today included, there is a success rate.
const PERIODS: [usize; 3] = [7, 30, 90];

/// The days of a job, in its zone.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct JobDays {
    /// The job's name.
    pub job_id: String,
    /// Days begin and end at midnight there.
    pub timezone: String,
    /// The oldest first, each once; the last one is today.
    pub days: Vec<JobDay>,
    /// Of the last 7, 30 and 90 days, as far as `days` goes back.
    pub rates: Vec<SuccessRate>,
    /// Of all successes of these days; none of fewer than five.
    pub durations: Option<Durations>,
    /// Set when the job has run so often that only its newest 30,000 runs were looked at: what ended before is not counted.
    pub counted_from: Option<Timestamp>,
}

/// A day. A run counts on the day it ended.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct JobDay {
    /// By the calendar of that zone.
    #[schema(value_type = String, format = Date)]
    pub day: Date,
    /// Where it begins.
    pub since: Timestamp,
    /// Where the next one begins: 23 or 25 hours later when the clocks change.
    pub until: Timestamp,
    /// Runs that succeeded.
    pub succeeded: i64,
    /// Runs that failed.
    pub failed: i64,
    /// Runs that ran past their timeout.
    pub timed_out: i64,
    /// Runs that were cancelled.
    pub cancelled: i64,
    /// Runs that were lost for good.
    pub lost: i64,
    /// Due instants without a run.
    pub skipped: i64,
    /// Of those that ran: began more than 60 s after they were ready.
    pub late: i64,
    /// The worst end of the day; none without a run.
    pub worst: Option<RunState>,
    /// Of its successes.
    pub durations: Option<Durations>,
    /// Whether the longest success is an outlier: it took more than twice the p95 of all days.
    pub outlier: bool,
}

/// How long successes took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Durations {
    /// Half of them took no longer.
    pub p50_ms: i64,
    /// 95 of 100 took no longer.
    pub p95_ms: i64,
    /// The longest of them.
    pub longest_ms: i64,
    /// How many there were.
    pub count: i64,
}

/// How many of the last days' runs succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SuccessRate {
    /// So many days, today included.
    pub days: usize,
    /// How many succeeded.
    pub succeeded: i64,
    /// Failed, timed out or lost.
    pub failed: i64,
    /// Of 1,000; none when no run succeeded or failed.
    pub permille: Option<usize>,
}

impl JobDay {
    /// Failed, timed out or lost.
    pub fn bad(&self) -> i64 {
        self.failed + self.timed_out + self.lost
    }

    /// All that ended.
    pub fn all(&self) -> i64 {
        self.succeeded + self.bad() + self.cancelled + self.skipped
    }

    /// How many ended so.
    pub fn ended(&self, state: RunState) -> i64 {
        match state {
            RunState::Succeeded => self.succeeded,
            RunState::Failed => self.failed,
            RunState::TimedOut => self.timed_out,
            RunState::Cancelled => self.cancelled,
            RunState::Lost => self.lost,
            RunState::Skipped => self.skipped,
            RunState::Due | RunState::Running => 0,
        }
    }

    fn count(&mut self, row: &Row) {
        let ended = match row.state {
            RunState::Succeeded => &mut self.succeeded,
            RunState::Failed => &mut self.failed,
            RunState::TimedOut => &mut self.timed_out,
            RunState::Cancelled => &mut self.cancelled,
            RunState::Lost => &mut self.lost,
            RunState::Skipped => &mut self.skipped,
            RunState::Due | RunState::Running => return,
        };
        *ended += row.runs;
        self.late += row.late;
        self.durations = self.durations.or(row.durations());
    }
}

/// Ends, the worst first.
const WORST: [RunState; 6] = [
    RunState::Failed,
    RunState::TimedOut,
    RunState::Lost,
    RunState::Cancelled,
    RunState::Skipped,
    RunState::Succeeded,
];

#[derive(Deserialize)]
struct Row {
    /// From 1; none for all days together.
    day: Option<usize>,
    state: RunState,
    runs: i64,
    records: i64,
    late: i64,
    first_end: Timestamp,
    timed: i64,
    millis: Option<[i64; 3]>,
}

impl Row {
    fn durations(&self) -> Option<Durations> {
        let [p50_ms, p95_ms, longest_ms] = self.millis.filter(|_| self.state == RunState::Succeeded)?;
        Some(Durations {
            p50_ms,
            p95_ms,
            longest_ms,
            count: self.timed,
        })
    }
}

/// The last `count` days (at most 90) of a job in its zone, also of one that is paused or disabled; None for an unknown job.
pub async fn days(db: &Db, name: &str, count: usize) -> Result<Option<JobDays>, StoreError> {
    let Some(listed) = jobs::job(db, name).await? else {
        return Ok(None);
    };
    let zone = listed.spec["timezone"].as_str().unwrap_or("UTC");
    let now = super::now(db).await?;
    days_in(db, name, zone, now, count).await.map(Some)
}

/// The same in a zone that is known already; in UTC when there is no such zone. The last day is the one of `now`.
pub async fn days_in(
    db: &Db,
    name: &str,
    zone: &str,
    now: Timestamp,
    count: usize,
) -> Result<JobDays, StoreError> {
    let found = TimeZone::get(zone);
    let timezone = if found.is_ok() { zone } else { "UTC" };
    let (dates, edges) = calendar(now, &found.unwrap_or(TimeZone::UTC), count.clamp(1, MOST_DAYS));
    let (since, until) = (edges.first().copied(), edges.last().copied());
    let late = i64::try_from(LATE.as_millis()).unwrap_or(i64::MAX);
    let rows: Vec<Row> = db
        .rows(
            stmt!("reading_days"),
            &[
                (&name, Type::TEXT),
                (&since, Type::TIMESTAMPTZ),
                (&until, Type::TIMESTAMPTZ),
                (&edges, Type::TIMESTAMPTZ_ARRAY),
                (&late, Type::INT8),
                (&LOOKED_AT, Type::INT8),
            ],
        )
        .await?;
    Ok(gathered(name, timezone, &dates, &edges, &rows))
}

/// The dates that end with the one of `now`, and where each begins; one more edge ends the last one.
fn calendar(now: Timestamp, zone: &TimeZone, count: usize) -> (Vec<Date>, Vec<Timestamp>) {
    let today = now.to_zoned(zone.clone()).date();
    let back = i64::try_from(count).unwrap_or(1) - 1;
    let all: Vec<(Date, Timestamp)> = (-back..=1)
        .filter_map(|n| {
            let date = today.checked_add(Span::new().days(n)).ok()?;
            Some((date, date.to_zoned(zone.clone()).ok()?.timestamp()))
        })
        .collect();
    let (mut dates, edges): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    dates.pop();
    (dates, edges)
}

fn gathered(name: &str, timezone: &str, dates: &[Date], edges: &[Timestamp], rows: &[Row]) -> JobDays {
    let mut days: Vec<JobDay> = (dates.iter().zip(edges.windows(2)))
        .map(|(day, edge)| empty(*day, edge[0], edge[1]))
        .collect();
    let (mut durations, mut records, mut first_end) = (None, 0, None);
    for row in rows {
        match row.day {
            Some(day) => {
                if let Some(day) = day.checked_sub(1).and_then(|n| days.get_mut(n)) {
                    day.count(row);
                }
            }
            None => {
                records += row.records;
                first_end = first_end.into_iter().chain([row.first_end]).min();
                durations = durations.or(row.durations());
            }
        }
    }
    let usual = durations.and_then(usual);
    for day in &mut days {
        day.worst = WORST.into_iter().find(|state| day.ended(*state) > 0);
        let longest = day.durations.map(|d| from_millis(d.longest_ms));
        day.outlier = (usual.zip(longest)).is_some_and(|(usual, longest)| usual.has_outlier(longest));
    }
    JobDays {
        job_id: name.to_owned(),
        timezone: timezone.to_owned(),
        rates: PERIODS.map(|period| rate(&days, period)).into(),
        days,
        durations: durations.filter(|_| usual.is_some()),
        counted_from: first_end.filter(|_| records >= LOOKED_AT),
    }
}

fn empty(day: Date, since: Timestamp, until: Timestamp) -> JobDay {
    JobDay {
        day,
        since,
        until,
        succeeded: 0,
        failed: 0,
        timed_out: 0,
        cancelled: 0,
        lost: 0,
        skipped: 0,
        late: 0,
        worst: None,
        durations: None,
        outlier: false,
    }
}

fn rate(days: &[JobDay], period: usize) -> SuccessRate {
    let last = &days[days.len().saturating_sub(period)..];
    let succeeded: i64 = last.iter().map(|day| day.succeeded).sum();
    let failed: i64 = last.iter().map(JobDay::bad).sum();
    let whole = |n: i64| usize::try_from(n).unwrap_or(0);
    SuccessRate {
        days: period,
        succeeded,
        failed,
        permille: success_permille(whole(succeeded), whole(failed)),
    }
}

fn usual(durations: Durations) -> Option<Usual> {
    Usual::known(
        from_millis(durations.p50_ms),
        from_millis(durations.p95_ms),
        from_millis(durations.longest_ms),
        usize::try_from(durations.count).unwrap_or(0),
    )
}
