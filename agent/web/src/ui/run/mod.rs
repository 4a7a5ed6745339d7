//! One run: its attempts, where they ran and why they ended, its output, who did what.

mod attempts;
mod facts;

use std::time::Duration;

use farmhand_control::ask::Run;
use farmhand_core::explain::Explanation;
use farmhand_core::run::RunState;
use farmhand_store::StoreError;
use farmhand_store::reading::{self, BarEnd, EventsFilter, NodeItem, Paging, RunDetail};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;

use super::actions::{Verb, button_of};
use super::events::sentences;
use super::layout::Section;
use super::parts::icons::Icon;
use super::parts::sentence::linked;
use super::parts::time::{ago, bytes, took};
use super::parts::{cli, link, words};
use super::{Made, flow, lanes, log, runs};
use crate::{App, Caller, Path, Problem, Query};

/// Nodes that are read for the picture.
const NODES: usize = 8;
/// Attempts whose output is offered: as many as are listed.
const ATTEMPTS: usize = 1_000;

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    /// Whose output is shown; the last one's when none is named.
    attempt: Option<i32>,
    /// The line that its window shows; the end when none is named.
    line: Option<i64>,
    /// `off` shows long lines as they are.
    wrap: String,
}

pub async fn made(
    app: App,
    caller: Caller,
    (Path(id), Query(ask)): (Path<i64>, Query<Ask>),
) -> Result<Made, Problem> {
    let db = app.reading.db();
    let detail = app.ask(&Run { run: id }).await?;
    let filter = EventsFilter {
        run: Some(id),
        ..EventsFilter::default()
    };
    let few = Paging::first(12);
    let events = reading::events(db, &filter, &few).await?;
    let view = if detail.flow {
        reading::flow(db, id).await?
    } else {
        None
    };
    let now = detail.db_now;
    let run = &detail.run;
    let waits = match run.state {
        RunState::Due if run.ready_at <= now => match reading::explain_run(db, run).await {
            // Only a newer version can read its definition.
            Err(StoreError::Refused(_)) => None,
            explained => Some(explained?),
        },
        _ => None,
    };
    let sign = words::run(run.state);
    let mut facts = attempts::facts(&detail);
    let nodes = nodes_in_doubt(&app, &facts).await?;
    facts.silences = lanes::silences(&facts.attempts, &nodes, now);
    let picture = lanes::arrange(&facts, attempts::end(&detail), attempts::window(&detail));
    let content = html! {
        div id="run-head" class="head" data-live {
            div class="grow" {
                div class="crumbs" { a href="/jobs" { "Jobs" } " / " a href=(link::job(&run.job_id)) { (run.job_id) } " /" }
                h1 { "Run " (run.run_id) " " (sign.markup()) }
            }
            (actions(&detail, &caller))
        }
        div id="run-notes" data-live { (notes(&detail)) @if let Some(why) = &waits { (held(why)) } (longer(&detail)) }
        @if !facts.attempts.is_empty() {
            section class="card" {
                header { h2 { "Where it ran" } }
                div id="run-lanes" data-live { (lanes::draw(&picture, now)) }
                div id="run-attempts" data-live { (attempts::table(&detail)) }
            }
        }
        @if let Some(view) = &view {
            section class="card" {
                header { h2 { "Flow" } span class="push" { a href=(format!("/runs/{id}/flow")) { "Graph and times" } } }
                div id="run-flow" class="body" data-live { (flow::summary(view)) }
            }
        }
        // Shown once there is an attempt; another attempt brings another window.
        div id="run-output" data-live { (output(&detail, &ask)) }
        div class="cols" {
            section class="card" {
                header { h2 { "Facts" } }
                div id="run-facts" class="body" data-live { (facts::pairs(&detail)) }
            }
            section class="card" {
                header { h2 { "Events" } span class="push" { a href=(format!("/events?run={id}")) { "All of them" } } }
                div id="run-events" data-live { (sentences(&events.items, now)) }
            }
        }
        @if detail.firing.len() > 1 {
            section class="card" {
                header { h2 { "Made together with it" } }
                div id="run-firing" data-live { (runs::table(&detail.firing, now)) }
            }
        }
        (cli(&format!("farmhand run show {id}")))
    };
    let tick = if run.state.is_final() { 0 } else { 3 };
    Ok(Made::new(
        format!("Run {id} {}", sign.word),
        Section::Runs,
        now,
        tick,
        content,
    ))
}

/// The nodes whose lease its picture shows: where an attempt was lost, or lives; the last ones, if they are many.
async fn nodes_in_doubt(app: &App, facts: &lanes::Facts) -> Result<Vec<NodeItem>, Problem> {
    let in_doubt = |a: &&lanes::AttemptFact| a.to.is_none() || a.end == BarEnd::Lost;
    let mut addresses: Vec<&str> = Vec::new();
    for attempt in facts.attempts.iter().rev().filter(in_doubt) {
        if addresses.len() < NODES && !addresses.contains(&attempt.address.as_str()) {
            addresses.push(&attempt.address);
        }
    }
    let mut nodes = Vec::new();
    for address in addresses {
        nodes.extend(reading::node(app.reading.db(), address).await?);
    }
    Ok(nodes)
}

fn actions(detail: &RunDetail, caller: &Caller) -> Markup {
    let run = &detail.run;
    let ask = |verb| button_of(verb, &run.run_id.to_string(), Some(&run.job_id), caller);
    html! {
        div class="actions" {
            @if run.state.is_final() {
                @if run.state != RunState::Skipped { (ask(Verb::Retry)) }
            } @else if !run.cancel_requested {
                (ask(Verb::Cancel))
            }
        }
    }
}

/// What somebody who opens the page at three in the morning has to know first.
fn notes(detail: &RunDetail) -> Markup {
    let (run, now) = (&detail.run, detail.db_now);
    html! {
        @if let Some(reason) = &run.reason {
            p class=(if run.state.is_final() && run.state != RunState::Succeeded { "callout bad" } else { "callout" }) {
                @match run.state {
                    RunState::Due => "Waits: ",
                    RunState::Skipped => "Skipped: ",
                    RunState::Running => "Taken over: ",
                    _ => "Why: ",
                }
                b { (reason) }
            }
        }
        @if run.state == RunState::Due && run.ready_at > now {
            p class="callout" { "It may begin " (ago(run.ready_at, now)) "." }
        }
        @if run.cancel_requested && !run.state.is_final() {
            p class="callout warn" {
                "Cancelling"
                @if let Some(by) = &detail.cancel_by { ", asked by " b { (by) } }
                ": its node ends it, or its next node would."
            }
        }
        @if let Some(until) = detail.lease_until.filter(|until| run.state == RunState::Running && *until < now) {
            p class="callout warn" role="status" {
                (Icon::Alert.markup()) " Its node’s lease was over " (ago(until, now)) ": another node takes the run when the stopwatch says so."
            }
        }
        @if run.takeovers > 0 {
            p class="callout" {
                "Taken over " (run.takeovers) (if run.takeovers == 1 { " time" } else { " times" })
                ": what the command did elsewhere before is fenced only if its target checks "
                code { "FARMHAND_FENCE" } "."
            }
        }
    }
}

/// What a run that could begin waits for, with links to who has it.
fn held(why: &Explanation) -> Markup {
    let gate = why.gates.iter().find(|gate| !gate.open);
    html! {
        @if why.held_by.is_some() {
            div class="callout" id="waits" {
                p { (linked(&why.answer)) }
                @if let Some(frees) = gate.and_then(|gate| gate.frees.as_ref()) { p { "What opens it: " (linked(frees)) "." } }
            }
        }
    }
}

fn longer(detail: &RunDetail) -> Markup {
    let since = detail.run.started_at;
    let lasted = since.and_then(|at| Duration::try_from(detail.db_now.duration_since(at)).ok());
    html! {
        @if let (Some(exceeded), Some(lasted)) = (&detail.exceeded, lasted) {
            p class="callout warn" id="longer" { "It has run for " (took(lasted)) ", " (exceeded) "." }
        }
    }
}

fn output(detail: &RunDetail, ask: &Ask) -> Markup {
    let run = &detail.run;
    let shown = ask.attempt.unwrap_or(run.attempt);
    if run.attempt == 0 {
        return html! {};
    }
    let stored = detail
        .output
        .iter()
        .find(|o| o.attempt == shown)
        .map_or(0, |o| o.bytes);
    let running = shown == run.attempt && !run.state.is_final();
    html! {
        section class="card" id="log" {
            header {
                h2 { "Output of attempt " (shown) }
                @if run.attempt > 1 {
                    form class="filter" method="get" action=(link::run(run.run_id)) {
                        label { "Attempt"
                            select name="attempt" {
                                @for n in (1..=run.attempt).rev().take(ATTEMPTS) { option value=(n) selected[n == shown] { (n) } }
                            }
                        }
                        button class="small" { "Show" }
                    }
                }
                (log::search(&format!("{}/matches", link::run(run.run_id)), &log::Searched::default(), false))
                span class="push" { (log::save(run.run_id, shown)) }
            }
            div class="logbar" id=(format!("logbar-{shown}")) data-keep {
                button type="button" class="small" data-follow aria-pressed="true" { "Follow" }
                button type="button" class="small" data-jump="start" { "Begin" }
                button type="button" class="small" data-jump="end" { "End" }
                (log::wrap(ask.wrap != "off"))
                span class="muted" data-where { (bytes(stored)) }
                (log::stderr_sign())
            }
            div class="log" id=(format!("log-{shown}")) tabindex="0" role="log" aria-label=(format!("Output of attempt {shown}")) aria-live="off" data-keep
                data-log=(format!("/runs/{}/log?attempt={shown}", run.run_id)) data-running=(running) data-at=[ask.line] {
                noscript { a href=(whole(run.run_id, shown, ask)) { "Read it on a page of its own" } }
            }
        }
    }
}

/// The page that shows the output without a script.
fn whole(run: i64, attempt: i32, ask: &Ask) -> String {
    let line = ask.line.map_or(String::new(), |line| line.to_string());
    let attempt = attempt.to_string();
    let pairs = [
        ("attempt", attempt.as_str()),
        ("line", &line),
        ("wrap", &ask.wrap),
    ];
    let anchor = ask.line.map_or(String::new(), |line| format!("#L{line}"));
    link::query(&format!("{}/log", link::run(run)), &pairs) + &anchor
}

/// From when to when; a little more than it lasted.
fn stretch(from: Timestamp, to: Timestamp) -> SignedDuration {
    let lasted = to.duration_since(from).max(SignedDuration::from_secs(5));
    lasted.checked_mul(21).map_or(lasted, |l| l / 20)
}
