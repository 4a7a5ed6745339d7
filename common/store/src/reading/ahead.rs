//! The schedule ahead: which jobs are due in which hour or on which day, and how long they usually take.

use std::collections::HashMap;
use std::time::Duration;

use farmhand_core::document::from_millis;
use farmhand_core::due::{self, DuePolicy};
use farmhand_core::durations::Usual;
use farmhand_core::schedule::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Unit, Zoned};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use crate::StoreError;
use crate::db::{Db, stmt};
use crate::jobs::{Listed, list_jobs};

/// Rows of one answer.
const JOBS: usize = 100;
/// A job that is due more often than so many times an hour, on average, is not counted but described.
const OFTEN: usize = 12;

/// The columns' width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// 24 of them.
    #[default]
    Hour,
    /// 7 of them.
    Day,
}

/// The table, of enabled jobs that have a schedule and are not paused.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Ahead {
    /// Where columns begin, and where the last one ends.
    pub edges: Vec<Timestamp>,
    /// Those that are due first come first; last those that are not counted.
    pub jobs: Vec<JobAhead>,
    /// Jobs that have no row, for want of room.
    pub left_out: usize,
}

/// A job's row.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct JobAhead {
    /// The job's name.
    pub job_id: String,
    /// In words, with the zone.
    pub schedule: String,
    /// Its first due instant in that time.
    pub first: Timestamp,
    /// Due instants for each column; None of a job that is due too often for that.
    pub counts: Option<Vec<usize>>,
    /// How long its runs usually take; none of fewer than five successes.
    pub usual: Option<Usual>,
}

impl Ahead {
    /// How long all that is counted in this column usually takes together.
    pub fn busy(&self, column: usize) -> Duration {
        let of = |job: &JobAhead| {
            let n = u32::try_from(job.due_in(column)).unwrap_or(u32::MAX);
            job.usual
                .map_or(Duration::ZERO, |usual| usual.p50.saturating_mul(n))
        };
        self.jobs.iter().map(of).sum()
    }
}

impl JobAhead {
    /// How many instants are counted in this column.
    pub fn due_in(&self, column: usize) -> usize {
        self.counts
            .as_ref()
            .and_then(|counts| counts.get(column).copied())
            .unwrap_or(0)
    }
}

/// The hours or days that begin with the present one, in UTC.
pub async fn ahead(db: &Db, now: Timestamp, step: Step) -> Result<Ahead, StoreError> {
    const PAGE: i64 = 1_000;
    let edges = edges(now, step);
    let end = edges.last().copied().unwrap_or(now);
    let mut found: Vec<(Timestamp, Listed)> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = list_jobs(db, after.as_deref(), PAGE).await?;
        after = page.last().map(|job| job.job_id.clone());
        let full = i64::try_from(page.len()) == Ok(PAGE);
        found.extend(page.into_iter().filter_map(|job| match job.next_run {
            Some(at) if at < end && job.enabled && !job.observe && !job.paused && job.scheduled => {
                Some((at, job))
            }
            _ => None,
        }));
        if !full {
            break;
        }
    }
    let mut rows: Vec<(Timestamp, String, Schedule, DuePolicy)> = found
        .into_iter()
        .filter_map(|(first, job)| {
            // A definition of a newer version has instants that this one cannot tell.
            let spec = serde_json::from_value(job.spec).ok()?;
            let (schedule, policy) = due::compile(&job.job_id, &spec).ok()?;
            // On a day that a calendar excludes nothing runs.
            let first = due::first_from(&schedule, &policy, first).filter(|first| *first < end)?;
            (!schedule.is_continuous()).then_some((first, job.job_id, schedule, policy))
        })
        .collect();
    rows.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let left_out = rows.len().saturating_sub(JOBS);
    rows.truncate(JOBS);
    let mut usual = usual(db, rows.iter().map(|(_, name, ..)| name.as_str()).collect()).await?;
    let mut jobs: Vec<JobAhead> = (rows.into_iter())
        .map(|(first, job_id, schedule, policy)| JobAhead {
            schedule: schedule.describe(),
            first,
            counts: counts(&schedule, &policy, now, &edges),
            usual: usual.remove(&job_id),
            job_id,
        })
        .collect();
    jobs.sort_by_key(|job| (job.counts.is_none(), job.first));
    Ok(Ahead {
        edges,
        jobs,
        left_out,
    })
}

fn edges(now: Timestamp, step: Step) -> Vec<Timestamp> {
    let (unit, width, columns) = match step {
        Step::Hour => (Unit::Hour, SignedDuration::from_hours(1), 24),
        Step::Day => (Unit::Day, SignedDuration::from_hours(24), 7),
    };
    let round = jiff::ZonedRound::new()
        .smallest(unit)
        .mode(jiff::RoundMode::Trunc);
    let start: Zoned = now.to_zoned(TimeZone::UTC);
    let start = start.round(round).map_or(now, |start| start.timestamp());
    (0..=columns).map(|column| start + width * column).collect()
}

fn counts(
    schedule: &Schedule,
    policy: &DuePolicy,
    now: Timestamp,
    edges: &[Timestamp],
) -> Option<Vec<usize>> {
    let (start, end) = (*edges.first()?, *edges.last()?);
    let hours = usize::try_from(end.duration_since(start).as_hours()).unwrap_or(0);
    let most = hours * OFTEN;
    let mut instants = due::upcoming(schedule, policy, now, most + 1);
    instants.retain(|at| *at < end);
    let of = |column: &[Timestamp]| {
        let inside = |at: &&Timestamp| column[0] <= **at && **at < column[1];
        instants.iter().filter(inside).count()
    };
    (instants.len() <= most).then(|| edges.windows(2).map(of).collect())
}

#[derive(Deserialize)]
struct Lasted {
    job_id: String,
    millis: Vec<i64>,
}

/// How long the successes among the last 50 runs of each of these jobs took; nothing of a job with fewer than five.
pub async fn usual(db: &Db, jobs: Vec<&str>) -> Result<HashMap<String, Usual>, StoreError> {
    let rows: Vec<Lasted> = db
        .rows(stmt!("reading_lasted"), &[(&jobs, Type::TEXT_ARRAY)])
        .await?;
    let usual = rows.into_iter().filter_map(|row| {
        let lasted = row.millis.into_iter().map(from_millis);
        Some((row.job_id, Usual::of(lasted)?))
    });
    Ok(usual.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use farmhand_core::definition::load;
    use farmhand_core::document::Source;

    fn counted(schedule: &str, step: Step) -> Option<Vec<usize>> {
        let text = format!("[job.a]\ncommand = 'x'\nschedule = '{schedule}'\n");
        let source = Source {
            name: "j".to_owned(),
            text,
        };
        let jobs = load(&[source]).unwrap();
        let (schedule, policy) = due::compile("a", &jobs[0].spec).unwrap();
        let now: Timestamp = "2026-11-25T06:10:00Z".parse().unwrap();
        counts(&schedule, &policy, now, &edges(now, step))
    }

    #[test]
    fn instants_are_counted_by_hour_and_by_day_from_now_on() {
        let hours = counted("0,30 6-7 * * *", Step::Hour).unwrap();
        assert_eq!((hours.len(), hours[0], hours[1], hours[2]), (24, 1, 2, 0));
        assert_eq!(counted("0 3 * * *", Step::Day), Some(vec![0, 1, 1, 1, 1, 1, 1]));
    }

    #[test]
    fn what_is_due_every_few_minutes_is_not_counted() {
        assert_eq!(counted("*/5 * * * *", Step::Hour).map(|h| h[1]), Some(12));
        assert_eq!(counted("*/4 * * * *", Step::Hour), None);
        assert_eq!(counted("@every 1s", Step::Day), None);
    }
}
