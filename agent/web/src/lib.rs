//! What an agent serves: metrics and health for machines, the API and the page for people.
//!
//! Every agent serves everything, from the database. Nothing but what [`routes::Access::Open`] names answers
//! without a token.

pub mod api;
pub mod auth;
pub mod changes;
mod dress;
mod extract;
#[doc(hidden)]
pub mod fuzzing;
mod patient;
mod plain;
pub mod problem;
mod refusals;
pub mod routes;
mod serve;
mod tls;
pub mod ui;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use farmhand_store::Db;
use farmhand_store::reading::Reading;
use tokio::sync::Semaphore;

use farmhand_telemetry::Health;
use farmhand_telemetry::events::Events;

pub use self::auth::Caller;
pub use self::extract::{Json, Path, Query};
pub use self::problem::Problem;
pub use self::routes::{Access, Routes};
pub use self::serve::{Serving, bind, serve};
pub use self::tls::{Part, Tls};

/// Actions that use the agent's own connections at once; the others wait.
const ACTIONS: usize = 2;

/// What handlers work with.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The parts of [`App`].
pub struct Parts {
    pub events: Events,
    /// The agent's own connections: for credentials and actions, through [`App::acting`].
    db: Db,
    /// For everything that only looks.
    pub reading: Reading,
    /// What changed, for pages that listen.
    pub changes: changes::Changes,
    pub health: Health,
    /// This agent's address, for people.
    pub address: String,
    /// Whether browsers reach it by TLS.
    pub tls: bool,
    auth: auth::Auth,
    refusals: refusals::Refusals,
    acting: Semaphore,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    pub fn new(events: Events, db: Db, health: Health, address: &str, tls: bool) -> Self {
        let reading = Reading::new(db.config()).observed_by(events.statement_observer());
        Self(Arc::new(Parts {
            refusals: refusals::Refusals::new(events.clone()),
            events,
            db,
            changes: changes::Changes::new(reading.db().clone()),
            reading,
            health,
            address: address.to_owned(),
            tls,
            auth: auth::Auth::default(),
            acting: Semaphore::new(ACTIONS),
        }))
    }

    /// Does something over the agent's own connections, with at most one other at once: the rest are for the agent.
    pub async fn acting<T>(&self, work: impl AsyncFnOnce(&Db) -> T) -> T {
        // It is never closed, so this cannot fail.
        let _permit = self.acting.acquire().await;
        work(&self.db).await
    }
}

/// Every route but those for machines.
pub fn routes() -> Routes {
    api::router().merge(ui::router()).merge(auth::router())
}

/// Only the health checks.
pub(crate) fn health_router(app: &App) -> Router {
    dress::dress(plain::health(app.clone()), app)
}

/// Everything, or only what is for machines.
pub fn router(app: &App, serving: &Serving) -> Router {
    let plain = plain::router(app, serving.metrics_token);
    if !serving.api {
        return dress::dress(plain, app);
    }
    dress::dress(routes().build(app).merge(plain), app)
}
