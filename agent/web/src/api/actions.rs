//! What callers do: each through [`farmhand_control`], as the command line does it.

use axum::extract::State;
use axum::http::HeaderMap;
use farmhand_core::definition::Overlap;
use farmhand_core::run::RunState;
use farmhand_store::Role;
use farmhand_store::jobs::Once;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::query::pair;
use crate::extract::MaybeJson;
use crate::refusals::Refused;
use crate::{App, Caller, Json, Path, Problem, Query, Routes};
use farmhand_control::{Action, Answer, BulkAction, By, Chosen, Kind, perform};

/// Longest `Idempotency-Key`, in bytes.
const KEY: usize = 200;

pub(super) fn router() -> Routes {
    Routes::new()
        .api(Role::Submitter, routes!(submit))
        .api(Role::Operator, routes!(pause))
        .api(Role::Operator, routes!(resume))
        .api(Role::Operator, routes!(backfill))
        .api(Role::Operator, routes!(cancel))
        .api(Role::Operator, routes!(retry))
        .api(Role::Operator, routes!(cancel_many))
        .api(Role::Operator, routes!(retry_many))
}

pub(super) type Answered = Result<Json<Answer>, Problem>;

/// Does it as the caller, or only says what it would do.
pub async fn act(app: &App, caller: &Caller, action: &Action, key: Option<&str>, preview: bool) -> Answered {
    let (who, token) = (caller.who(), caller.token());
    let by = By {
        who: &who,
        token: Some(&token),
        once: key.map(|key| Once {
            token_id: caller.token_id,
            key,
        }),
    };
    let answer = app
        .acting(async |db| perform(db, action, by, !preview).await)
        .await
        .map_err(Problem::from);
    if answer.as_ref().is_err_and(|problem| problem.kind == Kind::Denied) {
        // The route admits the role, and what is asked for may need a higher one.
        let why = if caller.may(action.role()) {
            "restricted"
        } else {
            "role"
        };
        note(app, caller, action.cli(), why);
    }
    let answer = answer?;
    if !preview {
        app.changes.wake();
    }
    Ok(Json(answer))
}

/// Writes down that what the caller wanted to do is refused.
pub(super) fn note(app: &App, caller: &Caller, what: String, reason: &'static str) {
    app.refusals.note(Refused {
        reason,
        token: Some(caller.name.clone()),
        remote: Some(caller.remote),
        method: String::new(),
        path: what,
        times: 1,
    });
}

/// The key that makes a repetition harmless.
fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let good = |key: &&str| (1..=KEY).contains(&key.len());
    value.to_str().ok().filter(good).map(Some).ok_or_else(|| {
        Problem::bad_request(format!(
            "Idempotency-Key has 1 to {KEY} printable ASCII characters"
        ))
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Plain {
    /// Only say what it would do
    #[serde(default)]
    pub preview: bool,
}

/// What a run is to be made with.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Submission {
    /// Parameters by name
    #[serde(default)]
    params: Map<String, Value>,
    /// What else of the job is live: run beside it (`allow`, the default), only if there is nothing (`skip`), after it
    /// (`queue`), instead of it (`replace`)
    #[schema(value_type = Option<String>, pattern = "^(allow|skip|queue|replace)$")]
    overlap: Option<Overlap>,
}

/// Run a job now
#[utoipa::path(post, path = "/api/v1/jobs/{job}/runs", tag = "jobs", request_body = Option<Submission>,
    params(("job" = String, Path, description = "Its name"), Plain,
        ("Idempotency-Key" = Option<String>, Header, description = "With the same key again, no second run is made and the first one is answered", min_length = 1, max_length = 200, pattern = "^[ -~]+$")),
    responses((status = 200, body = Answer)))]
async fn submit(
    State(app): State<App>,
    caller: Caller,
    Path(job): Path<String>,
    Query(query): Query<Plain>,
    headers: HeaderMap,
    MaybeJson(body): MaybeJson<Submission>,
) -> Answered {
    let action = Action::Submit {
        job,
        params: body.params,
        overlap: body.overlap.unwrap_or(Overlap::Allow),
    };
    act(&app, &caller, &action, key(&headers)?, query.preview).await
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct PauseQuery {
    /// Why, for the others
    reason: Option<String>,
    /// Only say what it would do
    #[serde(default)]
    preview: bool,
}

/// Stop a job's schedule; it can still be run by hand
#[utoipa::path(post, path = "/api/v1/jobs/{job}/pause", tag = "jobs", params(("job" = String, Path, description = "Its name"), PauseQuery),
    responses((status = 200, body = Answer)))]
async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(job): Path<String>,
    Query(query): Query<PauseQuery>,
) -> Answered {
    let action = Action::Pause {
        job,
        reason: query.reason,
    };
    act(&app, &caller, &action, None, query.preview).await
}

/// Start a paused job's schedule again; what fell into the pause is recorded as skipped
#[utoipa::path(post, path = "/api/v1/jobs/{job}/resume", tag = "jobs", params(("job" = String, Path, description = "Its name"), Plain),
    responses((status = 200, body = Answer)))]
async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(job): Path<String>,
    Query(query): Query<Plain>,
) -> Answered {
    act(&app, &caller, &Action::Resume { job }, None, query.preview).await
}

/// A stretch of the past.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Stretch {
    /// RFC 3339, or a date or time on the clock of the job's zone
    from: String,
    /// Itself not included; now, when it is left out
    to: Option<String>,
    /// Refuse when there are more runs to make than this; 100, when it is left out
    #[schema(minimum = 1, maximum = 10000)]
    max: Option<u32>,
}

/// Make runs for instants of the past that have none
#[utoipa::path(post, path = "/api/v1/jobs/{job}/backfill", tag = "jobs", request_body = Stretch,
    params(("job" = String, Path, description = "Its name"), Plain),
    responses((status = 200, body = Answer)))]
async fn backfill(
    State(app): State<App>,
    caller: Caller,
    Path(job): Path<String>,
    Query(query): Query<Plain>,
    Json(body): Json<Stretch>,
) -> Answered {
    let max = body.max.unwrap_or(100);
    if !(1..=10_000).contains(&max) {
        return Err(Problem::bad_request("max is 1 to 10000"));
    }
    let action = Action::Backfill {
        job,
        from: body.from,
        to: body.to,
        max: max as usize,
    };
    act(&app, &caller, &action, None, query.preview).await
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct CancelQuery {
    /// Also the rest of this firing: all shards, or the runs of each node
    #[serde(default)]
    firing: bool,
    /// Only say what it would do
    #[serde(default)]
    preview: bool,
}

/// End a run; one that is running gets SIGTERM, and SIGKILL after its grace
#[utoipa::path(post, path = "/api/v1/runs/{run}/cancel", tag = "runs", params(("run" = i64, Path, description = "Its number"), CancelQuery),
    responses((status = 200, body = Answer)))]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(run): Path<i64>,
    Query(query): Query<CancelQuery>,
) -> Answered {
    let action = Action::Cancel {
        run,
        firing: query.firing,
    };
    act(&app, &caller, &action, None, query.preview).await
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RetryQuery {
    /// Of a flow, only the tasks that did not succeed
    #[serde(default)]
    from_failed: bool,
    /// Only say what it would do
    #[serde(default)]
    preview: bool,
}

/// Run a finished run's job again, with its parameters, as a new run
#[utoipa::path(post, path = "/api/v1/runs/{run}/retry", tag = "runs",
    params(("run" = i64, Path, description = "Its number"), RetryQuery,
        ("Idempotency-Key" = Option<String>, Header, description = "With the same key again, no second run is made and the first one is answered", min_length = 1, max_length = 200, pattern = "^[ -~]+$")),
    responses((status = 200, body = Answer)))]
async fn retry(
    State(app): State<App>,
    caller: Caller,
    Path(run): Path<i64>,
    Query(query): Query<RetryQuery>,
    headers: HeaderMap,
) -> Answered {
    let action = Action::Retry {
        run,
        from_failed: query.from_failed,
    };
    act(&app, &caller, &action, key(&headers)?, query.preview).await
}

/// Which runs: those that are named, or else all that match.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Choice {
    /// By number; with these nothing else is looked at. At most 1,000
    runs: Vec<i64>,
    job: Option<String>,
    /// When it is left out: to cancel, due and running; to run again, failed, timed_out and lost
    state: Vec<RunState>,
    /// Its address
    node: Option<String>,
    /// A label that the `where` of its job asks for, as the job is defined now: `key=value`
    label: Option<String>,
    /// A parameter's value, as text: `name=value`. A run that was not given it has the default of its definition
    param: Option<String>,
    /// By their end or, if they have not ended, by their due instant
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    /// To run again: of flows, only the tasks that did not succeed
    from_failed: bool,
    /// To run again: every run that matches. When it is left out, of each job only those of the newest firing
    all: bool,
}

impl Choice {
    fn action(self, bulk: BulkAction) -> Result<Action, Problem> {
        Ok(Action::Many {
            bulk,
            from_failed: self.from_failed,
            chosen: Chosen {
                runs: self.runs,
                job: self.job,
                states: self.state,
                node: self.node,
                label: pair("label", self.label.as_deref().unwrap_or_default())?,
                param: pair("param", self.param.as_deref().unwrap_or_default())?,
                since: self.since,
                until: self.until,
                upto: None,
                all: self.all && bulk == BulkAction::Retry,
            },
        })
    }
}

/// End many runs; those that are running get SIGTERM, and SIGKILL after their grace
#[utoipa::path(post, path = "/api/v1/runs/cancel", tag = "runs", request_body = Choice, params(Plain),
    responses((status = 200, body = Answer),
        (status = 404, body = Problem, description = "There is no such job or run", content_type = "application/problem+json")))]
async fn cancel_many(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<Plain>,
    Json(choice): Json<Choice>,
) -> Answered {
    let action = choice.action(BulkAction::Cancel)?;
    act(&app, &caller, &action, None, query.preview).await
}

/// Run the jobs of many finished runs again, with their parameters, as new runs
#[utoipa::path(post, path = "/api/v1/runs/retry", tag = "runs", request_body = Choice,
    params(Plain, ("Idempotency-Key" = Option<String>, Header, description = "With the same key again, no second run is made of any of them", min_length = 1, max_length = 200, pattern = "^[ -~]+$")),
    responses((status = 200, body = Answer),
        (status = 404, body = Problem, description = "There is no such job or run", content_type = "application/problem+json")))]
async fn retry_many(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<Plain>,
    headers: HeaderMap,
    Json(choice): Json<Choice>,
) -> Answered {
    let action = choice.action(BulkAction::Retry)?;
    act(&app, &caller, &action, key(&headers)?, query.preview).await
}
