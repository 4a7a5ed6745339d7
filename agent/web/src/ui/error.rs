//! What a page says when it cannot say what it should: what happened, why, what to do next.

use axum::response::Response;
use maud::html;

use super::layout::{Frame, Section, Who};
use super::parts::cli;
use super::parts::icons::Icon;
use crate::{App, Caller, Problem};

/// The problem for somebody who is signed in.
pub fn shown(app: &App, caller: &Caller, problem: &Problem) -> Response {
    let who = Who {
        name: caller.name.clone(),
        role: caller.role,
    };
    page(app, Some(who), problem)
}

/// The problem as a page of its own.
pub fn page(app: &App, who: Option<Who>, problem: &Problem) -> Response {
    let status = problem.status();
    // A statement that takes too long is ended, and the farm goes on.
    let (again, away) = (status.as_u16() == 503, problem.is_away());
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
    let frame = Frame {
        title: problem.title().to_owned(),
        section: Section::Other,
        now: None,
        who,
        address: app.address.clone(),
        tick: 0,
    };
    super::html(status, &frame.page(&content))
}
