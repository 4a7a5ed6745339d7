//! `/metrics` and the health checks. No token: they say nothing about jobs.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::App;
use farmhand_os::clock::boot_now;

pub(super) fn router(app: App) -> Router {
    Router::new()
        .route("/metrics", get(render))
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
    if app.health.is_ready() {
        (StatusCode::OK, "ready\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no session\n").into_response()
    }
}
