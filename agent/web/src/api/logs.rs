//! A run's output: a stretch of it, or all of it as it comes.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use farmhand_control::Refusal;
use farmhand_store::Role;
use farmhand_store::reading::{self, LogRange, MOST_BYTES, Tail};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::follow::{self, Follower};
use super::query::within;
use super::runs::no_run;
use crate::{App, Json, Path, Problem, Query, Routes};

/// Bytes of one answer when nothing is said.
const USUAL: i64 = 64 << 10;

pub fn router() -> Routes {
    Routes::new()
        .api(Role::Viewer, routes!(range))
        .api(Role::Viewer, routes!(all))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RangeQuery {
    /// The last or present one when it is left out.
    #[param(minimum = 0)]
    attempt: Option<i32>,
    /// From this byte on, of everything that the attempt wrote.
    #[param(minimum = 0)]
    from: Option<i64>,
    /// Instead of `from`: so many lines before the end, as far as they are in its last 256 KiB.
    #[param(minimum = 1, maximum = 10000)]
    lines: Option<i64>,
    /// Bytes wanted; 64 KiB when it is left out, with neither `from` nor `lines` the last ones.
    #[param(minimum = 1, maximum = 262144)]
    limit: Option<i64>,
}

/// A stretch of an attempt's output
///
/// `next` of the answer is `from` of the stretch after it.
#[utoipa::path(get, path = "/api/v1/runs/{run}/log", tag = "runs",
    params(("run" = i64, Path, description = "The run's number"), RangeQuery),
    responses((status = 200, body = LogRange), (status = 404, body = Problem,
        description = "There is no such run or attempt", content_type = "application/problem+json")))]
async fn range(
    State(app): State<App>,
    Path(run): Path<i64>,
    Query(query): Query<RangeQuery>,
) -> Result<Json<LogRange>, Problem> {
    let most = i64::try_from(MOST_BYTES).unwrap_or(i64::MAX);
    let lines = within("lines", query.lines, 1, 10_000)?;
    let limit = within("limit", query.limit, 1, most)?;
    let from = within("from", query.from, 0, i64::MAX)?;
    let tail = match (from, lines) {
        (Some(_), Some(_)) => return Err(Problem::bad_request("say from or lines, not both")),
        (Some(from), None) => Tail::From(from),
        (None, Some(lines)) => Tail::Lines(usize::try_from(lines).unwrap_or(1)),
        (None, None) => Tail::Bytes(limit.unwrap_or(USUAL)),
    };
    let size = match tail {
        Tail::Lines(_) => MOST_BYTES,
        _ => usize::try_from(limit.unwrap_or(USUAL)).unwrap_or(MOST_BYTES),
    };
    let range = reading::log(app.reading.db(), run, query.attempt, tail, size).await?;
    range.map(Json).ok_or_else(|| match query.attempt {
        Some(attempt) => Refusal::not_found(format!("there is no attempt {attempt} of run {run}")).into(),
        None => no_run(run),
    })
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
        return Err(no_run(run));
    };
    let begin = (query.attempt.unwrap_or(state.attempt.max(1)), from);
    let begin = follow::resumed(&headers).unwrap_or(begin);
    Ok(Follower::new(db, run, begin, place).events())
}
