//! `/api/v1`: one file per noun.

pub(crate) mod acting;
mod definitions;
mod follow;
mod logs;
mod stream;

use std::sync::LazyLock;

pub(super) use acting::act;
use axum::http::header;
use axum::response::IntoResponse;
use bytes::Bytes;
use farmhand_control::{actions, ask};
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
        .act::<actions::Submit>("jobs")
        .act::<actions::Pause>("jobs")
        .act::<actions::Resume>("jobs")
        .act::<actions::Backfill>("jobs")
        .act::<actions::Rollback>("jobs")
        .act::<actions::DeleteJobs>("jobs")
        .act::<actions::Cancel>("runs")
        .act::<actions::CancelRuns>("runs")
        .act::<actions::Retry>("runs")
        .act::<actions::RetryRuns>("runs")
        .act::<actions::Replay>("runs")
        .act::<actions::Cordon>("nodes")
        .act::<actions::Drain>("nodes")
        .act::<actions::Uncordon>("nodes")
        .act::<actions::RemoveNode>("nodes")
        .act::<actions::Release>("nodes")
        .act::<actions::SetPool>("pools")
        .act::<actions::TestTarget>("notify")
        .merge(definitions::router())
        .ask::<ask::Farm>("farm")
        .ask::<ask::Lanes>("farm")
        .ask::<ask::Queue>("farm")
        .ask::<ask::Names>("farm")
        .ask::<ask::Ahead>("farm")
        .ask::<ask::Jobs>("jobs")
        .ask::<ask::Job>("jobs")
        .ask::<ask::Export>("jobs")
        .ask::<ask::Revisions>("jobs")
        .ask::<ask::DiffRevisions>("jobs")
        .ask::<ask::Next>("jobs")
        .ask::<ask::Grid>("jobs")
        .ask::<ask::Days>("jobs")
        .ask::<ask::Explain>("jobs")
        .ask::<ask::JobMatches>("jobs")
        .ask::<ask::Runs>("runs")
        .ask::<ask::Run>("runs")
        .ask::<ask::Row>("runs")
        .ask::<ask::Items>("runs")
        .ask::<ask::ExplainRun>("runs")
        .ask::<ask::Flow>("runs")
        .ask::<ask::Log>("runs")
        .ask::<ask::RunMatches>("runs")
        .merge(logs::router())
        .ask::<ask::Nodes>("nodes")
        .ask::<ask::Node>("nodes")
        .ask::<ask::Leases>("nodes")
        .ask::<ask::Pools>("pools")
        .ask::<ask::Pool>("pools")
        .ask::<ask::Events>("events")
        .ask::<ask::Targets>("notify")
        .ask::<ask::Notifications>("notify")
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
