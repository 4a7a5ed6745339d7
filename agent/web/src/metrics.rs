//! `/metrics` and the health checks. The metrics name jobs, nodes and pools, and ask for a token where that is wanted.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::auth::middleware::{BODY, Guard, guard};
use super::{Access, App};
use farmhand_os::clock::boot_now;
use farmhand_store::Role;

pub(super) fn router(app: &App, metrics_token: bool) -> Router {
    let metrics = if metrics_token {
        let guarding = Guard {
            app: app.clone(),
            access: Access::Api(Role::Viewer),
            most: BODY,
            // The metrics say that the database is away.
            even_away: true,
        };
        get(render).route_layer(middleware::from_fn_with_state(guarding, guard))
    } else {
        get(render)
    };
    Router::new()
        .route("/metrics", metrics)
        .with_state(app.clone())
        .merge(health(app.clone()))
}

/// What is answered on reserved places, too.
pub(super) fn health(app: App) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(app)
}

async fn render(State(app): State<App>) -> Response {
    let pool = app.db.gauge();
    let metrics = &app.events.metrics;
    metrics.connections(pool.idle, pool.used);
    match metrics.render(boot_now()) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")).into_response(),
    }
}

async fn ready(State(app): State<App>) -> Response {
    let away = app.events.metrics.db_up.get() == 0;
    match (app.health.is_ready(), away) {
        (_, true) => (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response(),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "no session\n").into_response(),
        (true, false) => (StatusCode::OK, "ready\n").into_response(),
    }
}
