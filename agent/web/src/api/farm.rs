//! The farm as a whole: its verdict, its lanes, the schedule ahead, why a job does not run.

use axum::extract::State;
use farmhand_core::explain::{Explanation, Gate};
use farmhand_store::Role;
use farmhand_store::reading::{self, Ahead, FarmStatus, Lanes, Step, Window};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::jobs::no_job;
use super::query::words;
use crate::{App, Json, Path, Problem, Query, Routes};

pub fn router() -> Routes {
    Routes::new()
        .api(Role::Viewer, routes!(farm))
        .api(Role::Viewer, routes!(lanes))
        .api(Role::Viewer, routes!(ahead))
        .api(Role::Viewer, routes!(explain))
}

/// The verdict: all well, or what is late, stuck or failing
#[utoipa::path(get, path = "/api/v1/farm", tag = "farm", responses((status = 200, body = FarmStatus)))]
async fn farm(State(app): State<App>) -> Result<Json<FarmStatus>, Problem> {
    Ok(Json(reading::status(app.reading.db()).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct LanesQuery {
    /// An hour before `to` when it is left out.
    from: Option<Timestamp>,
    /// Now when it is left out; at most seven days after `from`.
    to: Option<Timestamp>,
    /// Addresses with commas between them; all when it is left out.
    #[serde(default, deserialize_with = "words")]
    #[param(style = Form, explode = false)]
    node: Vec<String>,
    job: Option<String>,
}

/// Attempts as bars on the lanes of their nodes, with takeovers; or how many there were, when bars would be too many
#[utoipa::path(get, path = "/api/v1/lanes", tag = "farm", params(LanesQuery),
    responses((status = 200, body = Lanes)))]
async fn lanes(State(app): State<App>, Query(query): Query<LanesQuery>) -> Result<Json<Lanes>, Problem> {
    const USUAL: SignedDuration = SignedDuration::from_hours(1);
    let out_of_range = |_| Problem::bad_request("from or to is out of range");
    let to = match query.to {
        Some(to) => to,
        None => reading::now(app.reading.db()).await?,
    };
    let from = match query.from {
        Some(from) => from,
        None => to.checked_sub(USUAL).map_err(out_of_range)?,
    };
    let window = Window {
        from,
        to,
        nodes: query.node,
        job: query.job.filter(|job| !job.is_empty()),
    };
    Ok(Json(reading::lanes(app.reading.db(), &window).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AheadQuery {
    /// The next 24 hours, or the next 7 days; hours when it is left out.
    #[serde(default)]
    #[param(inline)]
    by: Step,
}

/// How often each job is due in each hour or on each day ahead, in UTC, and how long it usually takes
#[utoipa::path(get, path = "/api/v1/ahead", tag = "farm", params(AheadQuery), responses((status = 200, body = Ahead)))]
async fn ahead(State(app): State<App>, Query(asked): Query<AheadQuery>) -> Result<Json<Ahead>, Problem> {
    let db = app.reading.db();
    let now = reading::now(db).await?;
    Ok(Json(reading::ahead(db, now, asked.by).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ExplainQuery {
    /// The due instant in question; now when it is left out.
    at: Option<Timestamp>,
}

/// Why a job does not run: every gate that a run passes, and which holds it back
#[utoipa::path(get, path = "/api/v1/jobs/{job}/explain", tag = "jobs",
    params(("job" = String, Path, description = "Its name"), ExplainQuery),
    responses((status = 200, body = Explanation), (status = 404, body = Problem, description = "There is no such job",
        content_type = "application/problem+json")))]
async fn explain(
    State(app): State<App>,
    Path(job): Path<String>,
    Query(query): Query<ExplainQuery>,
) -> Result<Json<Explanation>, Problem> {
    let explanation = reading::explain(app.reading.db(), &job, query.at).await?;
    if explanation.held_by == Some(Gate::Exists) {
        return Err(no_job(&job));
    }
    Ok(Json(explanation))
}
