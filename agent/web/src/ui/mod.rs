//! The web page: rendered here, from what [`farmhand_store::reading`] reads. It needs no script; `farmhand.js` keeps
//! it current.

mod act;
mod ahead;
mod assets;
mod error;
mod events;
mod flow;
mod job;
mod jobs;
mod lanes;
mod layout;
mod log;
mod login;
mod nodes;
mod now;
mod parts;
mod pools;
mod run;
mod runs;
mod verdict;

use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use farmhand_store::Role;

use super::{Access, App, Problem, Routes};
use error::answer;
use layout::Made;

/// Pages, parts of pages and what they load.
pub fn router() -> Routes {
    let look = Access::Page(Role::Viewer);
    Routes::new()
        .page(
            Access::Open,
            Method::GET,
            "/assets/{version}/{name}",
            get(assets::serve),
        )
        .page(Access::Open, Method::GET, "/login", get(login::page))
        .page(look, Method::GET, "/", get(now::page))
        .page(look, Method::GET, "/jobs", get(jobs::page))
        .page(look, Method::GET, "/ahead", get(ahead::page))
        .page(look, Method::GET, "/jobs/{name}", get(job::page))
        .page(look, Method::GET, "/runs", get(runs::page))
        .page(look, Method::GET, "/runs/{id}", get(run::page))
        .page(look, Method::GET, "/runs/{id}/flow", get(flow::page))
        .page(look, Method::GET, "/runs/{id}/log", get(log::page))
        .page(look, Method::GET, "/runs/{id}/log.txt", get(log::whole::page))
        .page(look, Method::GET, "/runs/{id}/matches", get(log::matches::of_run))
        .page(
            look,
            Method::GET,
            "/jobs/{name}/matches",
            get(log::matches::of_job),
        )
        .page(look, Method::GET, "/nodes", get(nodes::page))
        .page(look, Method::GET, "/nodes/{address}", get(nodes::one))
        .page(look, Method::GET, "/pools", get(pools::page))
        .page(look, Method::GET, "/pools/{name}", get(pools::one))
        .page(look, Method::GET, "/events", get(events::page))
        .merge(act::router())
}

/// The problem for people.
pub(super) fn problem(app: &App, problem: &Problem) -> Response {
    error::page(app, None, problem)
}
