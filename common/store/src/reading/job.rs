//! One job: its definition, what comes next, how its runs went.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::jobs::{self, JobItem, JobsFilter};
use super::page::{Page, Paging, cursor};
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::jobs as definitions;
use crate::jobs::RevisionItem;
use crate::protocol::{self, Triggers};
use farmhand_core::definition::{Change, JobSpec, changes};
use farmhand_core::due;
use farmhand_core::run::RunState;

/// Cells of a grid, at most.
const CELLS: i64 = 1_000;
/// Revisions of a job's detail.
const REVISIONS: i64 = 20;
/// Instants ahead, at most.
const INSTANTS: usize = 100;

/// A job in full.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct JobDetail {
    /// The database's clock.
    pub db_now: Timestamp,
    /// As lists have it.
    pub job: JobItem,
    /// The definition, with all defaults.
    pub spec: Value,
    /// What triggers it and what it triggers.
    #[schema(value_type = Object)]
    pub triggers: Triggers,
    /// The next ten instants of its schedule, paused or not.
    pub next: Vec<Timestamp>,
    /// The last 20 revisions, the newest first.
    pub revisions: Vec<RevisionItem>,
}

/// A job; None for one that is unknown or deleted.
pub async fn job(db: &Db, name: &str) -> Result<Option<JobDetail>, StoreError> {
    let filter = JobsFilter::default();
    let (rows, listed, triggers, revisions, db_now) = tokio::try_join!(
        jobs::read(db, Some(name), &filter, None, 1),
        definitions::job(db, name),
        protocol::triggers(db, name),
        definitions::revisions(db, name, REVISIONS),
        super::now(db)
    )?;
    let (Some(row), Some(listed)) = (rows.into_iter().next(), listed) else {
        return Ok(None);
    };
    Ok(Some(JobDetail {
        db_now,
        job: jobs::item(row),
        next: instants(name, &listed.spec, db_now, 10),
        spec: listed.spec,
        triggers,
        revisions,
    }))
}

/// Instants ahead of a job.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NextInstants {
    /// The job's name.
    pub job_id: String,
    /// Instants are strictly after this one.
    pub from: Timestamp,
    /// In order; empty for a job without a schedule, and for a continuous one.
    pub instants: Vec<Timestamp>,
}

/// The next instants (at most 100) of a job's schedule after `from`, or after now; None for an unknown job.
pub async fn next(
    db: &Db,
    name: &str,
    from: Option<Timestamp>,
    count: usize,
) -> Result<Option<NextInstants>, StoreError> {
    let Some(listed) = definitions::job(db, name).await? else {
        return Ok(None);
    };
    let from = match from {
        Some(from) => from,
        None => super::now(db).await?,
    };
    Ok(Some(NextInstants {
        job_id: name.to_owned(),
        from,
        instants: instants(name, &listed.spec, from, count.min(INSTANTS)),
    }))
}

fn instants(name: &str, spec: &Value, from: Timestamp, count: usize) -> Vec<Timestamp> {
    // A definition of a newer version has instants that this one cannot tell.
    let spec = serde_json::from_value::<JobSpec>(spec.clone()).ok();
    let compiled = spec.and_then(|spec| due::compile(name, &spec).ok());
    compiled.map_or_else(Vec::new, |(schedule, policy)| {
        due::upcoming(&schedule, &policy, from, count)
    })
}

/// A run as a cell of a job's grid (firing × shard or node) and a point of its trend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cell {
    /// The run's number.
    pub run_id: i64,
    /// The first run of those that were made together: the column.
    pub firing: i64,
    /// The row.
    pub instance: i32,
    /// How many runs of one firing there are.
    pub instances: i32,
    /// Of an each-node job: the row.
    pub node: Option<String>,
    /// How far it has come, or how it ended.
    pub state: RunState,
    /// Why it waits, was skipped or ended so.
    pub reason: Option<String>,
    /// The address that holds it, or held it last.
    pub running_at: Option<String>,
    /// Its last attempt; 0 before the first.
    pub attempt: i32,
    /// The instant that it is for.
    pub due_at: Timestamp,
    /// When its command was started; none when it never was.
    pub started_at: Option<Timestamp>,
    /// When it ended; none while it has not.
    pub finished_at: Option<Timestamp>,
    /// From start to end, or to now.
    pub duration_ms: Option<i64>,
    /// Neighbours that were folded into one record.
    pub count: i64,
}

/// The newest runs of a job, at most 1,000, newest first.
pub async fn cells(db: &Db, job: &str, limit: i64) -> Result<Vec<Cell>, StoreError> {
    let limit = limit.clamp(1, CELLS);
    db.rows(
        stmt!("reading_cells"),
        &[(&job, Type::TEXT), (&limit, Type::INT8)],
    )
    .await
}

/// A page of a job's revisions, the newest first, also of a deleted job.
/// Errors: The database's; `Refused` for a cursor of something else.
pub async fn revisions(db: &Db, job: &str, paging: &Paging) -> Result<Page<RevisionItem>, StoreError> {
    let before: Option<i64> = paging.after("revisions")?;
    let limit = paging.rows();
    let rows = definitions::revisions_before(db, job, before, limit + 1).await?;
    Ok(Page::cut(rows, limit, |revision| {
        cursor("revisions", &revision.rev)
    }))
}

/// What differs between two revisions.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RevisionDiff {
    /// The job's name.
    pub job_id: String,
    /// The older one, or the one that was named first.
    pub from: i64,
    /// The other one.
    pub to: i64,
    /// The keys that differ.
    pub keys: BTreeMap<String, Change>,
}

#[derive(Deserialize)]
struct Pair {
    from: i64,
    to: i64,
    old: Value,
    new: Value,
}

/// What revision `to` (the newest when None) changed against `from` (the one before `to` when None). None when there is
/// no such pair.
pub async fn diff(
    db: &Db,
    job: &str,
    from: Option<i64>,
    to: Option<i64>,
) -> Result<Option<RevisionDiff>, StoreError> {
    let pair: Option<Pair> = db
        .row(
            stmt!("reading_diff"),
            &[(&job, Type::TEXT), (&from, Type::INT8), (&to, Type::INT8)],
        )
        .await?;
    Ok(pair.map(|pair| RevisionDiff {
        job_id: job.to_owned(),
        from: pair.from,
        to: pair.to,
        keys: changes(&pair.old, &pair.new),
    }))
}
