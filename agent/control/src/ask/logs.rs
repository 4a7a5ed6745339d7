//! Output: a stretch of it, and lines of it that have a text.

use farmhand_store::Db;
use farmhand_store::reading::{
    self, LogMatches, LogRange, MOST_BYTES, MOST_MATCHES, MOST_RUNS, Sought, Tail,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::Question;
use super::parts::within;
use crate::Refusal;
use crate::jobs::no_job;
use crate::runs::no_run;

/// Bytes of one answer when nothing is said.
const USUAL: i64 = 64 << 10;
/// Runs that are searched when nothing is said.
const USUAL_RUNS: i64 = 100;

/// A stretch of an attempt's output
///
/// `next` of the answer is `from` of the stretch after it.
#[derive(Deserialize, ToSchema)]
pub struct Log {
    /// The run's number
    pub run: i64,
    /// The last or present one when it is left out.
    #[schema(minimum = 0)]
    pub attempt: Option<i32>,
    /// From this byte on, of everything that the attempt wrote.
    #[schema(minimum = 0)]
    pub from: Option<i64>,
    /// Instead of `from`: so many lines before the end, as far as they are in its last 256 KiB.
    #[schema(minimum = 1, maximum = 10000)]
    pub lines: Option<i64>,
    /// Bytes wanted; 64 KiB when it is left out, with neither `from` nor `lines` the last ones.
    #[schema(minimum = 1, maximum = 262144)]
    pub limit: Option<i64>,
}

impl Question for Log {
    const PATH: &'static str = "/api/v1/runs/{run}/log";
    type Answer = LogRange;

    async fn answer(&self, db: &Db) -> Result<LogRange, Refusal> {
        let most = i64::try_from(MOST_BYTES).unwrap_or(i64::MAX);
        let lines = within("lines", self.lines, 1, 10_000)?;
        let limit = within("limit", self.limit, 1, most)?;
        let from = within("from", self.from, 0, i64::MAX)?;
        let tail = match (from, lines) {
            (Some(_), Some(_)) => return Err(Refusal::not_understood("say from or lines, not both")),
            (Some(from), None) => Tail::From(from),
            (None, Some(lines)) => Tail::Lines(usize::try_from(lines).unwrap_or(1)),
            (None, None) => Tail::Bytes(limit.unwrap_or(USUAL)),
        };
        let size = match tail {
            Tail::Lines(_) => MOST_BYTES,
            _ => usize::try_from(limit.unwrap_or(USUAL)).unwrap_or(MOST_BYTES),
        };
        let range = reading::log(db, self.run, self.attempt, tail, size).await?;
        range.ok_or_else(|| match self.attempt {
            Some(attempt) => Refusal::not_found(format!("there is no attempt {attempt} of run {}", self.run)),
            None => no_run(self.run),
        })
    }
}

/// Errors: 2 for a text that cannot be sought, or a number out of its range.
fn sought(text: &str, ignore_case: bool, limit: Option<i64>) -> Result<Sought, Refusal> {
    let most = i64::try_from(MOST_MATCHES).unwrap_or(i64::MAX);
    let limit = within("limit", limit, 1, most)?;
    let mut sought = Sought::new(text, ignore_case)?;
    if let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) {
        sought.matches = limit;
    }
    Ok(sought)
}

/// Lines of a run's output that have a text
///
/// What is stored is searched as a page shows it, without colours. At most 256 MiB are read in at most two seconds;
/// `cut` says whether the search ended early.
#[derive(Deserialize, ToSchema)]
pub struct RunMatches {
    /// The run's number
    pub run: i64,
    /// The text, on one line.
    #[schema(min_length = 1, max_length = 256)]
    pub q: String,
    /// Upper and lower case are the same.
    #[serde(default)]
    pub ignore_case: bool,
    /// Only this attempt; all when it is left out.
    #[schema(minimum = 1)]
    pub attempt: Option<i32>,
    /// Matches wanted; 100 when it is left out.
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<i64>,
}

impl Question for RunMatches {
    const PATH: &'static str = "/api/v1/runs/{run}/log/matches";
    const SEARCHES: bool = true;
    type Answer = LogMatches;

    async fn answer(&self, db: &Db) -> Result<LogMatches, Refusal> {
        let mut sought = sought(&self.q, self.ignore_case, self.limit)?;
        sought.attempt = self.attempt;
        (reading::run_matches(db, self.run, &sought).await?).ok_or_else(|| no_run(self.run))
    }
}

/// Lines that have a text, of the output of a job's last runs
///
/// What is stored is searched as a page shows it, without colours. At most 256 MiB are read in at most two seconds;
/// `cut` says whether the search ended early, and `before` where to go on.
#[derive(Deserialize, ToSchema)]
pub struct JobMatches {
    /// Its name
    pub job: String,
    /// The text, on one line.
    #[schema(min_length = 1, max_length = 256)]
    pub q: String,
    /// Upper and lower case are the same.
    #[serde(default)]
    pub ignore_case: bool,
    /// Runs that are searched, the newest first; 100 when it is left out.
    #[schema(minimum = 1, maximum = 1000)]
    pub runs: Option<i64>,
    /// Only runs before this one: `before` of the answer before.
    pub before: Option<i64>,
    /// Matches wanted; 100 when it is left out.
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<i64>,
}

impl Question for JobMatches {
    const PATH: &'static str = "/api/v1/jobs/{job}/log/matches";
    const SEARCHES: bool = true;
    type Answer = LogMatches;

    async fn answer(&self, db: &Db) -> Result<LogMatches, Refusal> {
        let sought = sought(&self.q, self.ignore_case, self.limit)?;
        let runs = within("runs", self.runs, 1, MOST_RUNS)?.unwrap_or(USUAL_RUNS);
        let found = reading::job_matches(db, &self.job, self.before, runs, &sought).await?;
        // Runs outlive their job; a name without any may be a mistake.
        if found.runs == 0 && reading::job(db, &self.job).await?.is_none() {
            return Err(no_job(db, &self.job).await);
        }
        Ok(found)
    }
}
