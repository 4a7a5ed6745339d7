//! What callers do to nodes, leases and pools.

use axum::extract::State;
use farmhand_store::Role;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::actions::{Answered, Plain, act};
use crate::{App, Caller, Json, Path, Query, Routes};
use farmhand_control::{Action, Answer};

pub(super) fn router() -> Routes {
    Routes::new()
        .api(Role::Operator, routes!(cordon))
        .api(Role::Operator, routes!(drain))
        .api(Role::Operator, routes!(uncordon))
        .api(Role::Admin, routes!(release))
        .api(Role::Operator, routes!(set_pool))
}

/// Let a node claim nothing more; what it runs goes on
#[utoipa::path(post, path = "/api/v1/nodes/{node}/cordon", tag = "nodes", params(("node" = String, Path, description = "Its address"), Plain),
    responses((status = 200, body = Answer)))]
async fn cordon(
    State(app): State<App>,
    caller: Caller,
    Path(node): Path<String>,
    Query(query): Query<Plain>,
) -> Answered {
    act(&app, &caller, &Action::Cordon { node }, None, query.preview).await
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct DrainQuery {
    /// A duration, as in 10m: what still runs after it is ended and runs elsewhere
    deadline: Option<String>,
    /// Only say what it would do
    #[serde(default)]
    preview: bool,
}

/// As cordon, and let what it runs come to its end
#[utoipa::path(post, path = "/api/v1/nodes/{node}/drain", tag = "nodes", params(("node" = String, Path, description = "Its address"), DrainQuery),
    responses((status = 200, body = Answer)))]
async fn drain(
    State(app): State<App>,
    caller: Caller,
    Path(node): Path<String>,
    Query(query): Query<DrainQuery>,
) -> Answered {
    let action = Action::Drain {
        node,
        deadline: query.deadline,
    };
    act(&app, &caller, &action, None, query.preview).await
}

/// Let a cordoned or draining node claim again
#[utoipa::path(post, path = "/api/v1/nodes/{node}/resume", tag = "nodes", params(("node" = String, Path, description = "Its address"), Plain),
    responses((status = 200, body = Answer)))]
async fn uncordon(
    State(app): State<App>,
    caller: Caller,
    Path(node): Path<String>,
    Query(query): Query<Plain>,
) -> Answered {
    act(&app, &caller, &Action::Uncordon { node }, None, query.preview).await
}

/// That the runs may then run twice is understood.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Confirmation {
    /// The node's address once more
    confirm: Option<String>,
}

/// End a node's session now and free its runs, without waiting until its processes must be dead
#[utoipa::path(post, path = "/api/v1/leases/{node}/release", tag = "nodes", request_body = Confirmation,
    params(("node" = String, Path, description = "Its address"), Plain),
    responses((status = 200, body = Answer)))]
async fn release(
    State(app): State<App>,
    caller: Caller,
    Path(node): Path<String>,
    Query(query): Query<Plain>,
    Json(body): Json<Confirmation>,
) -> Answered {
    let action = Action::Release {
        node,
        session: None,
        confirm: body.confirm,
    };
    act(&app, &caller, &action, None, query.preview).await
}

/// A pool's size.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Size {
    /// Places on the farm (`pool`), on each node (`node_pool`); 0 lets nothing start
    #[schema(minimum = 0, maximum = 1000000)]
    size: u32,
}

/// Resize a pool at once; runs in it go on, and the size stays until its job file has another
#[utoipa::path(put, path = "/api/v1/pools/{pool}/size", tag = "pools", request_body = Size,
    params(("pool" = String, Path, description = "Its name"), Plain),
    responses((status = 200, body = Answer)))]
async fn set_pool(
    State(app): State<App>,
    caller: Caller,
    Path(pool): Path<String>,
    Query(query): Query<Plain>,
    Json(body): Json<Size>,
) -> Answered {
    let action = Action::SetPool {
        pool,
        size: body.size,
    };
    act(&app, &caller, &action, None, query.preview).await
}
