//! Jobs: lists, one of them, its revisions, its runs as a grid, what comes next.

use farmhand_store::Db;
use farmhand_store::reading::{
    self, Cell, JobCondition, JobDays, JobDetail, JobItem, JobKind, JobOrder, JobsFilter, NextInstants, Page,
    RevisionDiff, RevisionItem,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Question;
use super::parts::{filled, paging, pair, within};
use crate::Refusal;
use crate::jobs::no_job;

/// Jobs, each with its last 30 outcomes
#[derive(Default, Deserialize, ToSchema)]
pub struct Jobs {
    /// A part of the name.
    pub name: Option<String>,
    #[schema(inline)]
    pub state: Option<JobCondition>,
    #[schema(inline)]
    pub kind: Option<JobKind>,
    /// A label that the job's `where` asks for, as `key=value`.
    pub label: Option<String>,
    /// By name when it is left out.
    #[schema(inline)]
    pub sort: Option<JobOrder>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[schema(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

impl Question for Jobs {
    const PATH: &'static str = "/api/v1/jobs";
    type Answer = Page<JobItem>;

    async fn answer(&self, db: &Db) -> Result<Page<JobItem>, Refusal> {
        let filter = JobsFilter {
            name: filled(self.name.as_ref()),
            state: self.state,
            kind: self.kind,
            label: pair("label", self.label.as_deref())?,
            order: self.sort.unwrap_or_default(),
        };
        let paging = paging(self.cursor.as_ref(), self.limit)?;
        Ok(reading::jobs(db, &filter, &paging).await?)
    }
}

/// A job: its definition, state, triggers and next ten instants
#[derive(Deserialize, ToSchema)]
pub struct Job {
    /// Its name
    pub job: String,
}

impl Question for Job {
    const PATH: &'static str = "/api/v1/jobs/{job}";
    type Answer = JobDetail;

    async fn answer(&self, db: &Db) -> Result<JobDetail, Refusal> {
        match reading::job(db, &self.job).await? {
            Some(detail) => Ok(detail),
            None => Err(no_job(db, &self.job).await),
        }
    }
}

/// A job's revisions, the newest first
#[derive(Deserialize, ToSchema)]
pub struct Revisions {
    /// Its name
    pub job: String,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[schema(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

impl Question for Revisions {
    const PATH: &'static str = "/api/v1/jobs/{job}/revisions";
    type Answer = Page<RevisionItem>;

    async fn answer(&self, db: &Db) -> Result<Page<RevisionItem>, Refusal> {
        let paging = paging(self.cursor.as_ref(), self.limit)?;
        Ok(reading::revisions(db, &self.job, &paging).await?)
    }
}

/// What differs between two revisions, key by key
#[derive(Deserialize, ToSchema)]
pub struct DiffRevisions {
    /// Its name
    pub job: String,
    /// The older revision; the one before `to` when it is left out.
    pub from: Option<i64>,
    /// The newer revision; the present one when it is left out.
    pub to: Option<i64>,
}

impl Question for DiffRevisions {
    const PATH: &'static str = "/api/v1/jobs/{job}/diff";
    type Answer = RevisionDiff;

    async fn answer(&self, db: &Db) -> Result<RevisionDiff, Refusal> {
        let diff = reading::diff(db, &self.job, self.from, self.to).await?;
        diff.ok_or_else(|| {
            let refusal = Refusal::not_found(format!("{} has no such two revisions", self.job));
            refusal.next(format!("`farmhand job show {}` lists them", self.job))
        })
    }
}

/// The next instants of a job's schedule
#[derive(Deserialize, ToSchema)]
pub struct Next {
    /// Its name
    pub job: String,
    /// Instants strictly after this one; after now when it is left out.
    pub from: Option<Timestamp>,
    /// How many; 10 when it is left out.
    #[schema(minimum = 1, maximum = 100)]
    pub count: Option<i64>,
}

impl Question for Next {
    const PATH: &'static str = "/api/v1/jobs/{job}/next";
    type Answer = NextInstants;

    async fn answer(&self, db: &Db) -> Result<NextInstants, Refusal> {
        let count = within("count", self.count, 1, 100)?.unwrap_or(10);
        let count = usize::try_from(count).unwrap_or(10);
        match reading::next(db, &self.job, self.from, count).await? {
            Some(next) => Ok(next),
            None => Err(no_job(db, &self.job).await),
        }
    }
}

/// A job's newest runs as cells of a grid (firing × shard or node), with their durations
#[derive(Deserialize, ToSchema)]
pub struct Grid {
    /// Its name
    pub job: String,
    /// Runs, the newest first; 200 when it is left out.
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<i64>,
}

/// A job's newest runs.
#[derive(Serialize, ToSchema)]
#[schema(as = Grid)]
pub struct NewestRuns {
    /// A column per `firing`, a row per `instance` or `node`; the newest first.
    cells: Vec<Cell>,
}

impl Question for Grid {
    const PATH: &'static str = "/api/v1/jobs/{job}/grid";
    type Answer = NewestRuns;

    async fn answer(&self, db: &Db) -> Result<NewestRuns, Refusal> {
        let limit = within("limit", self.limit, 1, 1_000)?.unwrap_or(200);
        let cells = reading::cells(db, &self.job, limit).await?;
        Ok(NewestRuns { cells })
    }
}

/// How a job's runs ended on each of its last days, in its zone, with success rates and durations
#[derive(Deserialize, ToSchema)]
pub struct Days {
    /// Its name
    pub job: String,
    /// How many, today included; 90 when it is left out.
    #[schema(minimum = 1, maximum = 90)]
    pub days: Option<i64>,
}

impl Question for Days {
    const PATH: &'static str = "/api/v1/jobs/{job}/days";
    type Answer = JobDays;

    async fn answer(&self, db: &Db) -> Result<JobDays, Refusal> {
        let count = within("days", self.days, 1, 90)?.and_then(|n| usize::try_from(n).ok());
        match reading::days(db, &self.job, count.unwrap_or(reading::MOST_DAYS)).await? {
            Some(days) => Ok(days),
            None => Err(no_job(db, &self.job).await),
        }
    }
}
