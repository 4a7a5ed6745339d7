//! Lines of output that have a text: of a run, and of a job's last runs. A page of its own, so that a page that stays
//! current does not search again.

use farmhand_control::ask::{JobMatches, RunMatches};
use farmhand_core::text::count;
use farmhand_store::reading::{self, LogMatches, MOST_RUNS, SearchCut};
use maud::{Markup, html};

use super::super::Made;
use super::super::layout::Section;
use super::super::parts::time::bytes;
use super::super::parts::{link, scroll};
use super::{Searched, lines, search};
use crate::{App, Caller, Path, Problem, Query};

pub async fn of_run(
    app: App,
    _: Caller,
    (Path(id), Query(ask)): (Path<i64>, Query<Searched>),
) -> Result<Made, Problem> {
    let asked = RunMatches {
        run: id,
        q: ask.q.clone(),
        ignore_case: !ask.ignore_case.is_empty(),
        attempt: ask.attempt,
        limit: None,
    };
    let found = app.ask(&asked).await?;
    let content = html! {
        div class="head" {
            div class="grow" {
                div class="crumbs" { a href="/runs" { "Runs" } " / " a href=(link::run(id)) { "Run " (id) } " /" }
                h1 { "Lines with “" (ask.q) "”" }
            }
        }
        section class="card" {
            header { (search(&format!("/runs/{id}/matches"), &ask, false)) }
            (shown(&found, ask.attempt))
        }
    };
    made(&app, Section::Runs, &ask.q, content).await
}

pub async fn of_job(
    app: App,
    _: Caller,
    (Path(name), Query(ask)): (Path<String>, Query<Searched>),
) -> Result<Made, Problem> {
    let runs = ask.runs.unwrap_or(100).clamp(1, MOST_RUNS);
    let asked = JobMatches {
        job: name.clone(),
        q: ask.q.clone(),
        ignore_case: !ask.ignore_case.is_empty(),
        runs: Some(runs),
        before: ask.before,
        limit: None,
    };
    let (name, found) = (name.as_str(), app.ask(&asked).await?);
    let action = format!("{}/matches", link::job(name));
    let older = found.before.map(|before| {
        let (before, runs) = (before.to_string(), runs.to_string());
        let pairs = [
            ("q", ask.q.as_str()),
            ("runs", &runs),
            ("before", &before),
            ("ignore_case", &ask.ignore_case),
        ];
        link::query(&action, &pairs)
    });
    let content = html! {
        div class="head" {
            div class="grow" {
                div class="crumbs" { a href="/jobs" { "Jobs" } " / " a href=(link::job(name)) { (name) } " /" }
                h1 { "Lines with “" (ask.q) "”" }
            }
        }
        section class="card" {
            header { (search(&action, &ask, true)) }
            (shown(&found, None))
            @if let Some(href) = older { div class="pager" { a class="button" href=(href) rel="next" { "Search older runs" } } }
        }
    };
    made(&app, Section::Jobs, &ask.q, content).await
}

async fn made(app: &App, section: Section, text: &str, content: Markup) -> Result<Made, Problem> {
    let now = reading::now(app.reading.db()).await?;
    Ok(Made::new(format!("Lines with {text}"), section, now, 0, content))
}

fn shown(found: &LogMatches, attempt: Option<i32>) -> Markup {
    html! {
        div class="body" {
            p id="searched" {
                b { (count(found.items.len(), "line")) } " in the stored output of "
                @if let Some(attempt) = attempt { "attempt " (attempt) " of " }
                (count(found.runs, "run")) ", " (bytes(found.bytes)) "."
            }
            @if let Some(cut) = found.cut {
                p class="callout warn" {
                    @match cut {
                        SearchCut::Matches => "The search ended early: it lists no more lines at once.",
                        SearchCut::Bytes => "The search ended early: it reads no more bytes at once.",
                        SearchCut::Time => "The search ended early: it takes no more time at once.",
                    }
                    " There may be more lines."
                }
            }
            @if found.not_kept > 0 {
                p class="callout" {
                    (bytes(found.not_kept)) " of this output were not searched, because the database does not have them: the job’s "
                    code { "output.keep" } " says how much it keeps."
                }
            }
        }
        @if found.items.is_empty() {
            p class="empty muted" { "No line has this text." }
        } @else {
            (scroll("matches", html! { th { "Run" } th class="num" { "Attempt" } th class="num" { "Line" } th { "Text" } }, found.items.iter().map(|item| html! {
                tr data-row {
                    td class="nowrap" { a href=(lines::address(item.run_id, item.attempt, item.line)) { (item.run_id) } }
                    td class="num" { (item.attempt) }
                    td class="num" { (item.line) }
                    td class="mono" { (item.text) }
                }
            })))
        }
    }
}
