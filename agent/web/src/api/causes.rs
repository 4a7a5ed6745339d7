//! What callers say of causes.

use axum::extract::State;
use farmhand_store::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::actions::{Answered, Plain, act};
use crate::{App, Caller, Path, Query, Routes};
use farmhand_control::{Action, Answer};

pub(super) fn router() -> Routes {
    Routes::new()
        .api(Role::Operator, routes!(acknowledge))
        .api(Role::Operator, routes!(unacknowledge))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AcknowledgeQuery {
    /// How long it does not lead, as in 2h; 8h when it is left out, at most 30d
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// What the others should know, in one line
    note: Option<String>,
    /// Only say what it would do
    #[serde(default)]
    preview: bool,
}

/// Say that a cause of the verdict is known: it does not lead for a while, or until it occurs anew
#[utoipa::path(post, path = "/api/v1/causes/{cause}/acknowledge", tag = "farm",
    params(("cause" = String, Path, description = "As the verdict names it: failing:backup"), AcknowledgeQuery),
    responses((status = 200, body = Answer)))]
async fn acknowledge(
    State(app): State<App>,
    caller: Caller,
    Path(cause): Path<String>,
    Query(query): Query<AcknowledgeQuery>,
) -> Answered {
    let action = Action::Acknowledge {
        cause,
        lasts: query.lasts,
        note: query.note,
    };
    act(&app, &caller, &action, None, query.preview).await
}

/// Take the acknowledgement of a cause back
#[utoipa::path(post, path = "/api/v1/causes/{cause}/unacknowledge", tag = "farm",
    params(("cause" = String, Path, description = "As the verdict names it: failing:backup"), Plain),
    responses((status = 200, body = Answer)))]
async fn unacknowledge(
    State(app): State<App>,
    caller: Caller,
    Path(cause): Path<String>,
    Query(query): Query<Plain>,
) -> Answered {
    let action = Action::Unacknowledge { cause };
    act(&app, &caller, &action, None, query.preview).await
}
