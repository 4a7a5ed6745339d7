//! All of a run's output, as it comes.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use farmhand_control::ask::within;
use farmhand_control::runs::no_run;
use farmhand_store::Role;
use farmhand_store::reading;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::follow::{self, Follower};
use crate::{App, Path, Problem, Query, Routes};

pub fn router() -> Routes {
    Routes::new().api(Role::Viewer, routes!(all))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct FollowQuery {
    /// Begin with this attempt; with the last or present one when it is left out.
    #[param(minimum = 0)]
    attempt: Option<i32>,
    /// Begin at this byte; at the beginning when it is left out.
    #[param(minimum = 0)]
    from: Option<i64>,
}

/// A run's output as it comes, as server-sent events
///
/// Events: `log` (`attempt` and a piece of output), `attempt` (the next one begins), `end` (the run has ended and its
/// output is complete; the stream ends). After a reconnect with `Last-Event-ID` nothing is missing and nothing comes
/// twice. The stream is ended after fifteen minutes; browsers reconnect by themselves.
#[utoipa::path(get, path = "/api/v1/runs/{run}/log/follow", tag = "runs",
    params(("run" = i64, Path, description = "The run's number"), FollowQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that arrived")),
    responses((status = 200, body = String, content_type = "text/event-stream"), (status = 404, body = Problem,
        description = "There is no such run", content_type = "application/problem+json")))]
async fn all(
    State(app): State<App>,
    Path(run): Path<i64>,
    Query(query): Query<FollowQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let from = within("from", query.from, 0, i64::MAX)?.unwrap_or(0);
    within("attempt", query.attempt.map(i64::from), 0, i64::from(i32::MAX))?;
    let place = app.changes.place()?;
    let db = app.reading.db().clone();
    let Some(state) = reading::log_state(&db, run, None).await? else {
        return Err(no_run(run).into());
    };
    let begin = (query.attempt.unwrap_or(state.attempt.max(1)), from);
    let begin = follow::resumed(&headers).unwrap_or(begin);
    Ok(Follower::new(db, run, begin, place).events())
}
