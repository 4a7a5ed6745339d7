//! Runs: lists, one of them, its tasks when it is a flow.

use axum::extract::State;
use farmhand_control::Refusal;
use farmhand_core::run::RunState;
use farmhand_store::reading::{self, FlowView, Page, RunDetail, RunFilter, RunItem};
use farmhand_store::{Role, RunKind};
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::query::{paging, pair, words};
use crate::{App, Json, Path, Problem, Query, Routes};

pub fn router() -> Routes {
    Routes::new()
        .api(Role::Viewer, routes!(list))
        .api(Role::Viewer, routes!(show))
        .api(Role::Viewer, routes!(flow))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    job: Option<String>,
    /// States with commas between them.
    #[serde(default, deserialize_with = "words")]
    #[param(style = Form, explode = false)]
    state: Vec<RunState>,
    /// The address that holds it, or held it last.
    node: Option<String>,
    kind: Option<RunKind>,
    /// Ended at this instant or later; with `since` or `until` the list is of ended runs, the latest end first.
    since: Option<Timestamp>,
    /// Ended before this instant.
    until: Option<Timestamp>,
    /// The runs for the row with this key, of the table job that `job` names.
    key: Option<String>,
    /// A label that the `where` of its job asks for, as the job is defined now: `key=value`.
    label: Option<String>,
    /// A parameter's value, as text: `name=value`. A run that was not given it has the default of its definition.
    param: Option<String>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
}

/// Runs, the newest first
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", params(ListQuery),
    responses((status = 200, body = Page<RunItem>)))]
async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<RunItem>>, Problem> {
    let filter = RunFilter {
        job: query.job.filter(|job| !job.is_empty()),
        states: query.state,
        node: query.node.filter(|node| !node.is_empty()),
        kind: query.kind,
        since: query.since,
        until: query.until,
        key: query.key.filter(|key| !key.is_empty()),
        label: pair("label", query.label.as_deref().unwrap_or_default())?,
        param: pair("param", query.param.as_deref().unwrap_or_default())?,
    };
    let paging = paging(query.cursor, query.limit)?;
    Ok(Json(reading::runs(app.reading.db(), &filter, &paging).await?))
}

/// A run with its attempts, progress and output
#[utoipa::path(get, path = "/api/v1/runs/{run}", tag = "runs", params(("run" = i64, Path, description = "Its number")),
    responses((status = 200, body = RunDetail), (status = 404, body = Problem, description = "There is no such run",
        content_type = "application/problem+json")))]
async fn show(State(app): State<App>, Path(run): Path<i64>) -> Result<Json<RunDetail>, Problem> {
    let detail = reading::run(app.reading.db(), run).await?;
    Ok(Json(detail.ok_or_else(|| no_run(run))?))
}

/// The tasks of a run that is a flow, with times, dependencies and the critical path
#[utoipa::path(get, path = "/api/v1/runs/{run}/flow", tag = "runs",
    params(("run" = i64, Path, description = "Its number")),
    responses((status = 200, body = FlowView), (status = 404, body = Problem,
        description = "There is no such run, or it is not a flow", content_type = "application/problem+json")))]
async fn flow(State(app): State<App>, Path(run): Path<i64>) -> Result<Json<FlowView>, Problem> {
    let view = reading::flow(app.reading.db(), run).await?;
    view.map(Json)
        .ok_or_else(|| Refusal::not_found(format!("there is no run {run}, or it is no flow")).into())
}

/// What is said of a number that no run has; also by pages.
pub fn no_run(run: i64) -> Problem {
    Refusal::not_found(format!("there is no run {run}"))
        .why("it never existed, its history has expired, or it was a round of a continuous job whose success was merged into a later one's")
        .next("/runs shows the newest runs, and /api/v1/runs lists them for programs")
        .into()
}
