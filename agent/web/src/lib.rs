//! What an agent serves: metrics and health for machines, the API and the page for people.
//!
//! Every agent serves everything, from the database. Nothing but what [`Access::Open`] names answers
//! without a token.

mod access;
pub mod api;
mod app;
pub mod auth;
pub mod changes;
mod definitions;
mod extract;
#[doc(hidden)]
pub mod fuzzing;
mod login;
mod metrics;
pub mod problem;
mod question;
mod refusals;
mod response;
pub mod routes;
mod serve;
mod slow_peer;
mod tls;
pub mod ui;

use axum::Router;

pub use self::access::Access;
pub use self::app::{App, Parts};
pub use self::auth::Caller;
pub use self::definitions::Definitions;
pub use self::extract::{Json, Path, Query};
pub use self::problem::Problem;
pub use self::routes::Routes;
pub use self::serve::{Serving, bind, serve};
pub use self::tls::{Part, Tls};

/// Every route but those for machines.
pub fn routes() -> Routes {
    api::router().merge(ui::router()).merge(login::router())
}

pub(crate) fn health_router(app: &App) -> Router {
    response::finished(metrics::health(app.clone()), app)
}

/// Everything, or only what is for machines.
pub fn router(app: &App, serving: &Serving) -> Router {
    let machines = metrics::router(app, serving.metrics_token);
    if !serving.api {
        return response::finished(machines, app);
    }
    response::finished(routes().build(app).merge(machines), app)
}
