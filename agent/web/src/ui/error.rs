//! A page, or what it says when it cannot say what it should: what happened, why, what to do next.

use axum::http::StatusCode;
use axum::response::Response;
use farmhand_control::Kind;
use jiff::Timestamp;
use maud::html;

use super::layout::{Made, Section};
use super::parts::cli;
use super::parts::icons::Icon;
use crate::{App, Caller, Problem};

/// The page, or the one that says why there is none.
pub fn answer(app: &App, caller: &Caller, made: Result<Made, Problem>) -> Response {
    match made {
        Ok(made) => made.response(app, Some(caller), StatusCode::OK),
        Err(problem) => page(app, Some(caller), &problem),
    }
}

/// The problem as a page of its own, for whoever is signed in.
pub fn page(app: &App, who: Option<&Caller>, problem: &Problem) -> Response {
    let status = problem.status();
    // A statement that takes too long is ended, and the farm goes on.
    let (again, away) = (status.as_u16() == 503, problem.kind == Kind::Away);
    let content = html! {
        section class="card verdict bad" data-retry[again] data-away[away] {
            h1 { (Icon::Alert.markup()) (problem.title()) }
            @if let Some(why) = problem.why() { p class="mono" { (why) } }
            @if let Some(next) = problem.next() { p { "What to do: " (next) "." } }
            @if again { p { "This page tries again by itself." } }
            @if away { (cli("farmhand doctor")) }
            p class="muted" { (status.as_u16()) " " (status.canonical_reason().unwrap_or("")) }
            div class="actions" {
                a class="button" href="/" { "Now" }
                @if again { a class="button" href="" { "Try again" } }
            }
        }
    };
    Made::new(problem.title(), Section::Other, None::<Timestamp>, 0, content).response(app, who, status)
}
