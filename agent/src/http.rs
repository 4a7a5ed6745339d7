//! `/metrics` and the health checks. No token: they say nothing about jobs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use farmhand_common::store::Db;
use tokio::net::TcpListener;

use crate::clock::boot_now;
use crate::metrics::Metrics;

/// Whether this agent holds a session.
#[derive(Clone, Default)]
pub struct Health(Arc<AtomicBool>);

impl Health {
    pub fn ready(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct App {
    metrics: Arc<Metrics>,
    db: Db,
    health: Health,
}

/// Binds before anything else is started, so that a taken port is an error at once.
///
/// # Errors
/// When the address is in use or not ours.
pub async fn bind(addr: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(addr).await
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>, db: Db, health: Health) {
    let app = Router::new()
        .route("/metrics", get(render))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(App { metrics, db, health });
    if let Err(e) = axum::serve(listener, app).await {
        tracing::error!("the HTTP server ended: {e}");
    }
}

async fn render(State(app): State<App>) -> Response {
    let pool = app.db.gauge();
    app.metrics.connections(pool.idle, pool.used);
    match app.metrics.render(boot_now()) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")).into_response(),
    }
}

async fn ready(State(app): State<App>) -> Response {
    if app.health.0.load(Ordering::Relaxed) {
        (StatusCode::OK, "ready\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no session\n").into_response()
    }
}
