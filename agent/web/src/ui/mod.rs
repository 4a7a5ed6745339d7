//! The web page: rendered here, from what [`farmhand_store::reading`] reads. It needs no script; `farmhand.js` keeps
//! it current.

mod actions;
mod ahead;
mod assets;
mod error;
mod events;
mod fields;
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

use axum::extract::{FromRequestParts, State};
use axum::http::Method;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use farmhand_store::Role;

use super::{Access, App, Caller, Problem, Routes};
use error::answer;
use layout::Made;

/// Pages, parts of pages and what they load.
pub fn router() -> Routes {
    let open = [
        ("/assets/{version}/{name}", get(assets::serve)),
        ("/login", get(login::page)),
    ];
    let pages = [
        ("/", page(now::made)),
        ("/jobs", page(jobs::made)),
        ("/ahead", page(ahead::made)),
        ("/jobs/{name}", page(job::made)),
        ("/runs", page(runs::made)),
        ("/runs/{id}", page(run::made)),
        ("/runs/{id}/flow", page(flow::made)),
        ("/runs/{id}/log", get(log::page)),
        ("/runs/{id}/log.txt", get(log::whole::page)),
        ("/runs/{id}/matches", page(log::matches::of_run)),
        ("/jobs/{name}/matches", page(log::matches::of_job)),
        ("/nodes", page(nodes::list)),
        ("/nodes/{address}", page(nodes::one)),
        ("/pools", page(pools::list)),
        ("/pools/{name}", page(pools::one)),
        ("/events", page(events::made)),
    ];
    let routes = open.into_iter().fold(Routes::new(), |routes, (path, handler)| {
        routes.page(Access::Open, Method::GET, path, handler)
    });
    let look = Access::Page(Role::Viewer);
    let routes = pages.into_iter().fold(routes, |routes, (path, handler)| {
        routes.page(look, Method::GET, path, handler)
    });
    routes.merge(actions::router())
}

/// What answers a request for a page: the page, or the one that says why there is none.
fn page<A, F>(made: impl Fn(App, Caller, A) -> F + Clone + Send + Sync + 'static) -> MethodRouter<App>
where
    A: FromRequestParts<App> + Send + 'static,
    F: Future<Output = Result<Made, Problem>> + Send + 'static,
{
    get(
        move |State(app): State<App>, caller: Caller, asked: A| async move {
            let made = made(app.clone(), caller.clone(), asked).await;
            answer(&app, &caller, made)
        },
    )
}

pub(super) fn problem(app: &App, problem: &Problem) -> Response {
    error::page(app, None, problem)
}
