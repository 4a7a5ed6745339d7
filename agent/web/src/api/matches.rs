//! Lines of output that have a text.

use axum::extract::State;
use farmhand_store::Role;
use farmhand_store::reading::{self, LogMatches, MOST_MATCHES, MOST_RUNS, Sought};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::query::within;
use super::runs::no_run;
use crate::{App, Json, Path, Problem, Query, Routes};

/// Runs that are searched when nothing is said.
const USUAL_RUNS: i64 = 100;

pub fn router() -> Routes {
    Routes::new()
        .api(Role::Viewer, routes!(of_run))
        .api(Role::Viewer, routes!(of_job))
}

/// Errors: 400 for a text that cannot be sought, or a number out of its range.
fn sought(text: &str, ignore_case: bool, limit: Option<i64>) -> Result<Sought, Problem> {
    let most = i64::try_from(MOST_MATCHES).unwrap_or(i64::MAX);
    let limit = within("limit", limit, 1, most)?;
    let mut sought = Sought::new(text, ignore_case)?;
    if let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) {
        sought.matches = limit;
    }
    Ok(sought)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RunQuery {
    /// The text, on one line.
    #[param(min_length = 1, max_length = 256)]
    q: String,
    /// Upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// Only this attempt; all when it is left out.
    #[param(minimum = 1)]
    attempt: Option<i32>,
    /// Matches wanted; 100 when it is left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i64>,
}

/// Lines of a run's output that have a text
///
/// What is stored is searched as a page shows it, without colours. At most 256 MiB are read in at most two seconds;
/// `cut` says whether the search ended early.
#[utoipa::path(get, path = "/api/v1/runs/{run}/log/matches", tag = "runs",
    params(("run" = i64, Path, description = "The run's number"), RunQuery),
    responses((status = 200, body = LogMatches), (status = 404, body = Problem,
        description = "There is no such run", content_type = "application/problem+json")))]
async fn of_run(
    State(app): State<App>,
    Path(run): Path<i64>,
    Query(query): Query<RunQuery>,
) -> Result<Json<LogMatches>, Problem> {
    let mut sought = sought(&query.q, query.ignore_case, query.limit)?;
    sought.attempt = query.attempt;
    let found = app
        .searching(async |db| reading::run_matches(db, run, &sought).await)
        .await?;
    found.map(Json).ok_or_else(|| no_run(run))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct JobQuery {
    /// The text, on one line.
    #[param(min_length = 1, max_length = 256)]
    q: String,
    /// Upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// Runs that are searched, the newest first; 100 when it is left out.
    #[param(minimum = 1, maximum = 1000)]
    runs: Option<i64>,
    /// Only runs before this one: `before` of the answer before.
    before: Option<i64>,
    /// Matches wanted; 100 when it is left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i64>,
}

/// Lines that have a text, of the output of a job's last runs
///
/// What is stored is searched as a page shows it, without colours. At most 256 MiB are read in at most two seconds;
/// `cut` says whether the search ended early, and `before` where to go on.
#[utoipa::path(get, path = "/api/v1/jobs/{job}/log/matches", tag = "jobs",
    params(("job" = String, Path, description = "Its name"), JobQuery),
    responses((status = 200, body = LogMatches), (status = 404, body = Problem,
        description = "There is no such job", content_type = "application/problem+json")))]
async fn of_job(
    State(app): State<App>,
    Path(job): Path<String>,
    Query(query): Query<JobQuery>,
) -> Result<Json<LogMatches>, Problem> {
    let sought = sought(&query.q, query.ignore_case, query.limit)?;
    let runs = within("runs", query.runs, 1, MOST_RUNS)?.unwrap_or(USUAL_RUNS);
    let found = app
        .searching(async |db| reading::job_matches(db, &job, query.before, runs, &sought).await)
        .await?;
    // Runs outlive their job; a name without any may be a mistake.
    if found.runs == 0 && reading::job(app.reading.db(), &job).await?.is_none() {
        return Err(super::jobs::no_job(&job));
    }
    Ok(Json(found))
}
