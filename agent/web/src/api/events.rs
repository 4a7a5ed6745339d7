//! What happened: takeovers, fences, skips, and who did what.

use axum::extract::State;
use farmhand_store::event::EventKind;
use farmhand_store::events::Recorded;
use farmhand_store::reading::{self, EventsFilter, Page};
use farmhand_store::{Role, Severity};
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::query::{paging, words};
use crate::{App, Json, Problem, Query, Routes};

pub fn router() -> Routes {
    Routes::new().api(Role::Viewer, routes!(list))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    job: Option<String>,
    run: Option<i64>,
    /// The address of the node that recorded it.
    node: Option<String>,
    /// Kinds with commas between them.
    #[serde(default, deserialize_with = "words")]
    #[param(style = Form, explode = false)]
    kind: Vec<EventKind>,
    /// This one or worse.
    severity: Option<Severity>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
}

/// Events, the newest first
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(ListQuery),
    responses((status = 200, body = Page<Recorded>)))]
async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<Recorded>>, Problem> {
    let filter = EventsFilter {
        job: query.job.filter(|job| !job.is_empty()),
        run: query.run,
        node: query.node.filter(|node| !node.is_empty()),
        kinds: query.kind.iter().map(ToString::to_string).collect(),
        severity: query.severity,
        since: query.since,
        until: query.until,
    };
    let paging = paging(query.cursor, query.limit)?;
    Ok(Json(reading::events(app.reading.db(), &filter, &paging).await?))
}
