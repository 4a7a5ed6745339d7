//! Jobs: lists, one of them, its revisions, its runs as a grid, what comes next.

use axum::extract::State;
use farmhand_control::Refusal;
use farmhand_store::Role;
use farmhand_store::reading::{
    self, Cell, JobCondition, JobDays, JobDetail, JobItem, JobKind, JobOrder, JobsFilter, NextInstants, Page,
    RevisionDiff, RevisionItem,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::query::{PageQuery, paging, pair, within};
use crate::{App, Json, Path, Problem, Query, Routes};

pub fn router() -> Routes {
    Routes::new()
        .api(Role::Viewer, routes!(list))
        .api(Role::Viewer, routes!(show))
        .api(Role::Viewer, routes!(revisions))
        .api(Role::Viewer, routes!(diff))
        .api(Role::Viewer, routes!(next))
        .api(Role::Viewer, routes!(grid))
        .api(Role::Viewer, routes!(days))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// A part of the name.
    name: Option<String>,
    #[param(inline)]
    state: Option<JobCondition>,
    #[param(inline)]
    kind: Option<JobKind>,
    /// A label that the job's `where` asks for, as `key=value`.
    label: Option<String>,
    /// By name when it is left out.
    #[param(inline)]
    sort: Option<JobOrder>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
}

/// Jobs, each with its last 30 outcomes
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(ListQuery),
    responses((status = 200, body = Page<JobItem>)))]
async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<JobItem>>, Problem> {
    let filter = JobsFilter {
        name: query.name.filter(|name| !name.is_empty()),
        state: query.state,
        kind: query.kind,
        label: pair("label", query.label.as_deref().unwrap_or_default())?,
        order: query.sort.unwrap_or_default(),
    };
    let paging = paging(query.cursor, query.limit)?;
    Ok(Json(reading::jobs(app.reading.db(), &filter, &paging).await?))
}

/// A job: its definition, state, triggers and next ten instants
#[utoipa::path(get, path = "/api/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path, description = "Its name")),
    responses((status = 200, body = JobDetail), (status = 404, body = Problem, description = "There is no such job",
        content_type = "application/problem+json")))]
async fn show(State(app): State<App>, Path(job): Path<String>) -> Result<Json<JobDetail>, Problem> {
    let db = app.reading.db();
    match reading::job(db, &job).await? {
        Some(detail) => Ok(Json(detail)),
        None => Err(no_job(&job)),
    }
}

/// A job's revisions, the newest first
#[utoipa::path(get, path = "/api/v1/jobs/{job}/revisions", tag = "jobs",
    params(("job" = String, Path, description = "Its name"), PageQuery),
    responses((status = 200, body = Page<RevisionItem>)))]
async fn revisions(
    State(app): State<App>,
    Path(job): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<RevisionItem>>, Problem> {
    let paging = query.paging()?;
    Ok(Json(reading::revisions(app.reading.db(), &job, &paging).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct DiffQuery {
    /// The older revision; the one before `to` when it is left out.
    from: Option<i64>,
    /// The newer revision; the present one when it is left out.
    to: Option<i64>,
}

/// What differs between two revisions, key by key
#[utoipa::path(get, path = "/api/v1/jobs/{job}/diff", tag = "jobs",
    params(("job" = String, Path, description = "Its name"), DiffQuery),
    responses((status = 200, body = RevisionDiff), (status = 404, body = Problem,
        description = "There are no such two revisions", content_type = "application/problem+json")))]
async fn diff(
    State(app): State<App>,
    Path(job): Path<String>,
    Query(query): Query<DiffQuery>,
) -> Result<Json<RevisionDiff>, Problem> {
    let diff = reading::diff(app.reading.db(), &job, query.from, query.to).await?;
    diff.map(Json).ok_or_else(|| {
        let refusal = Refusal::not_found(format!("{job} has no such two revisions"));
        refusal
            .next(format!("/api/v1/jobs/{job}/revisions lists them"))
            .into()
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct NextQuery {
    /// Instants strictly after this one; after now when it is left out.
    from: Option<Timestamp>,
    /// How many; 10 when it is left out.
    #[param(minimum = 1, maximum = 100)]
    count: Option<i64>,
}

/// The next instants of a job's schedule
#[utoipa::path(get, path = "/api/v1/jobs/{job}/next", tag = "jobs",
    params(("job" = String, Path, description = "Its name"), NextQuery),
    responses((status = 200, body = NextInstants), (status = 404, body = Problem, description = "There is no such job",
        content_type = "application/problem+json")))]
async fn next(
    State(app): State<App>,
    Path(job): Path<String>,
    Query(query): Query<NextQuery>,
) -> Result<Json<NextInstants>, Problem> {
    let count = within("count", query.count, 1, 100)?.unwrap_or(10);
    let count = usize::try_from(count).unwrap_or(10);
    let db = app.reading.db();
    match reading::next(db, &job, query.from, count).await? {
        Some(next) => Ok(Json(next)),
        None => Err(no_job(&job)),
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct GridQuery {
    /// Runs, the newest first; 200 when it is left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i64>,
}

/// A job's newest runs.
#[derive(Serialize, ToSchema)]
struct Grid {
    /// A column per `firing`, a row per `instance` or `node`; the newest first.
    cells: Vec<Cell>,
}

/// A job's newest runs as cells of a grid (firing × shard or node), with their durations
#[utoipa::path(get, path = "/api/v1/jobs/{job}/grid", tag = "jobs",
    params(("job" = String, Path, description = "Its name"), GridQuery),
    responses((status = 200, body = Grid)))]
async fn grid(
    State(app): State<App>,
    Path(job): Path<String>,
    Query(query): Query<GridQuery>,
) -> Result<Json<Grid>, Problem> {
    let limit = within("limit", query.limit, 1, 1_000)?.unwrap_or(200);
    let cells = reading::cells(app.reading.db(), &job, limit).await?;
    Ok(Json(Grid { cells }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct DaysQuery {
    /// How many, today included; 90 when it is left out.
    #[param(minimum = 1, maximum = 90)]
    days: Option<i64>,
}

/// How a job's runs ended on each of its last days, in its zone, with success rates and durations
#[utoipa::path(get, path = "/api/v1/jobs/{job}/days", tag = "jobs",
    params(("job" = String, Path, description = "Its name"), DaysQuery),
    responses((status = 200, body = JobDays), (status = 404, body = Problem, description = "There is no such job",
        content_type = "application/problem+json")))]
async fn days(
    State(app): State<App>,
    Path(job): Path<String>,
    Query(query): Query<DaysQuery>,
) -> Result<Json<JobDays>, Problem> {
    let count = within("days", query.days, 1, 90)?.and_then(|n| usize::try_from(n).ok());
    let db = app.reading.db();
    match reading::days(db, &job, count.unwrap_or(reading::MOST_DAYS)).await? {
        Some(days) => Ok(Json(days)),
        None => Err(no_job(&job)),
    }
}

/// What is said of a name that no job has; also by pages.
pub fn no_job(job: &str) -> Problem {
    Refusal::not_found(format!("there is no job {job}"))
        .why("it was never applied, or has been removed")
        .next("/jobs shows the jobs, and /api/v1/jobs lists them for programs")
        .into()
}
