//! The output of an attempt: a stretch of it as a page of its own, which the run's page also shows in its window.

mod lines;
pub mod matches;
pub mod whole;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use farmhand_control::Refusal;
use farmhand_store::reading::{self, LogView, Place};
use maud::{Markup, html};
use serde::Deserialize;

use super::fields::maybe;
use super::layout::{self, Made, Section};
use super::parts::link;
use super::parts::time::bytes;
use crate::{App, Caller, Path, Problem, Query};

/// Which stretch; the last one when nothing is said.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    attempt: Option<i32>,
    /// The byte to begin with, or the one to end before.
    from: Option<i64>,
    before: Option<i64>,
    /// The number of the line that this byte is in, where the asker knows it.
    at: Option<i64>,
    /// Instead: the line that is to be in it.
    line: Option<i64>,
    /// The stretch alone, without the page around it.
    bare: bool,
    wrap: String,
}

pub async fn page(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<i64>,
    Query(ask): Query<Ask>,
) -> Result<Response, Problem> {
    let place = match (ask.line, ask.from, ask.before) {
        (Some(line), _, _) => Place::Line(line),
        (_, Some(byte), _) => Place::From(byte, ask.at),
        (_, _, Some(byte)) => Place::Before(byte, ask.at),
        _ => Place::End,
    };
    let db = app.reading.db();
    let Some(view) = reading::log_view(db, id, ask.attempt, place).await? else {
        return Err(Refusal::not_found("this run has no such attempt").into());
    };
    let block = lines::block(
        &view,
        matches!(place, Place::Before(..)).then_some(ask.before).flatten(),
    );
    if ask.bare {
        return Ok(layout::html(StatusCode::OK, block));
    }
    let now = reading::now(db).await?;
    let content = content(&view, &block, ask.wrap != "off");
    let made = Made::new(format!("Output of run {id}"), Section::Runs, now, 0, content);
    Ok(made.response(&app, Some(&caller), StatusCode::OK))
}

fn content(view: &LogView, block: &Markup, wraps: bool) -> Markup {
    let (id, attempt) = (view.run_id, view.attempt.to_string());
    let address = |place: &str, byte: i64, line: Option<i64>| {
        let (byte, line) = (byte.to_string(), line.map_or(String::new(), |n| n.to_string()));
        let wrap = if wraps { "" } else { "off" };
        let pairs = [
            ("attempt", attempt.as_str()),
            (place, &byte),
            ("at", &line),
            ("wrap", wrap),
        ];
        link::query(&format!("/runs/{id}/log"), &pairs)
    };
    html! {
        div class="head" {
            div class="grow" {
                div class="crumbs" { a href="/runs" { "Runs" } " / " a href=(link::run(id)) { "Run " (id) } " /" }
                h1 { "Output of attempt " (view.attempt) }
            }
        }
        section class="card" {
            header {
                (search(&format!("/runs/{id}/matches"), &Searched { attempt: Some(view.attempt), ..Searched::default() }, false))
                span class="push" { (save(id, view.attempt)) }
            }
            div class="logbar" {
                @if view.from > 0 {
                    a class="button" href=(address("from", 0, Some(1))) { "Begin" }
                    a class="button" href=(address("before", view.from, view.line)) { "Earlier" }
                }
                @if view.next < view.end {
                    a class="button" href=(address("from", view.next, view.next_line())) { "Later" }
                    a class="button" href=(link::query(&format!("/runs/{id}/log"), &[("attempt", &attempt)])) { "End" }
                }
                (wrap(wraps))
                span class="muted" { (bytes(view.from)) " to " (bytes(view.next)) " of " (bytes(view.end)) }
                (stderr_sign())
            }
            div class="log whole" tabindex="0" role="region" aria-label=(format!("Output of attempt {attempt}")) { (block) }
        }
    }
}

/// The box that says whether long lines are wrapped; the sheet does it, without a script.
pub fn wrap(checked: bool) -> Markup {
    html! { label class="check" { input type="checkbox" data-wrap checked[checked]; "Wrap lines" } }
}

/// What the mark of stderr means.
pub fn stderr_sign() -> Markup {
    html! { span class="muted" { span class="t-bad" { "▌" } " stderr" } }
}

/// The link to the whole of it as a file.
pub fn save(run: i64, attempt: i32) -> Markup {
    html! { a class="button" href=(format!("/runs/{run}/log.txt?attempt={attempt}")) download { "Download" } }
}

/// What was searched for.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Searched {
    pub q: String,
    /// Anything but nothing: upper and lower case are the same.
    pub ignore_case: String,
    /// Of these attempts only.
    #[serde(deserialize_with = "maybe")]
    pub attempt: Option<i32>,
    /// Of a job: so many runs.
    pub runs: Option<i64>,
    /// And only those before this one.
    pub before: Option<i64>,
}

/// The form that searches output: of a run, or of a job's last runs.
pub fn search(action: &str, searched: &Searched, of_job: bool) -> Markup {
    html! {
        form class="filter" method="get" action=(action) role="search" {
            label { "Find in the output" input type="search" name="q" value=(searched.q) required maxlength=(reading::MOST_SOUGHT); }
            @if let Some(attempt) = searched.attempt { input type="hidden" name="attempt" value=(attempt); }
            @if of_job {
                label { "of the last"
                    select name="runs" {
                        @for n in [10, 100, 1000] { option value=(n) selected[n == searched.runs.unwrap_or(100)] { (n) " runs" } }
                    }
                }
            }
            label class="check" { input type="checkbox" name="ignore_case" value="true" checked[!searched.ignore_case.is_empty()]; "Ignore case" }
            button class="small" { "Find" }
        }
    }
}
