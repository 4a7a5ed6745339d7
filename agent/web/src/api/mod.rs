//! `/api/v1`: one file per noun.

mod actions;
mod definitions;
mod events;
mod farm;
mod follow;
pub(crate) mod jobs;
mod logs;
mod matches;
pub(crate) mod nodes;
mod places;
pub(crate) mod query;
pub(crate) mod runs;
mod stream;

use std::sync::LazyLock;

pub(super) use actions::act;
use axum::http::header;
use axum::response::IntoResponse;
use bytes::Bytes;
use farmhand_store::Role;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{Caller, Json, Routes};

/// Every route of the API.
pub fn router() -> Routes {
    Routes::new()
        .api(Role::Viewer, routes!(me))
        .open_api(routes!(openapi))
        .merge(actions::router())
        .merge(places::router())
        .merge(definitions::router())
        .merge(farm::router())
        .merge(jobs::router())
        .merge(runs::router())
        .merge(logs::router())
        .merge(matches::router())
        .merge(nodes::router())
        .merge(events::router())
        .merge(stream::router())
}

/// Who is asking.
#[derive(Serialize, ToSchema)]
struct LeaseIdentity {
    /// The token's name.
    name: String,
    /// viewer, submitter, operator or admin.
    role: String,
    /// The jobs that it may act on: names, or how names begin, with a `*` behind; null: all
    jobs: Option<Vec<String>>,
    /// As actions are recorded.
    who: String,
}

/// The caller and its role
#[utoipa::path(get, path = "/api/v1/me", tag = "api", responses((status = 200, body = LeaseIdentity)))]
async fn me(caller: Caller) -> Json<LeaseIdentity> {
    Json(LeaseIdentity {
        who: caller.who(),
        role: caller.role.to_string(),
        jobs: caller.jobs,
        name: caller.name,
    })
}

/// This document
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "api",
    responses((status = 200, body = serde_json::Value)))]
async fn openapi() -> impl IntoResponse {
    // Anybody may ask, as often as they like. Its keys are text, so that it can always be written.
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
        let document = serde_json::to_vec(&crate::routes().openapi());
        document.unwrap_or_default().into()
    });
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone())
}
