//! One job: how its runs went, what comes next, why it does not run, how its definition changed.

mod days;
mod definition;
mod grid;
mod trend;

use farmhand_control::ask::Job;
use farmhand_control::moment;
use farmhand_core::explain::{Explanation, Gate};
use farmhand_store::StoreError;
use farmhand_store::reading::{self, JobDetail, JobState, Paging};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;

use super::actions::{Verb, button_of};
use super::layout::Section;
use super::parts::sentence::linked;
use super::parts::strip::strip;
use super::parts::time::{ago, both};
use super::parts::{cli, link, none, words};
use super::{Made, jobs, log, runs};
use crate::{App, Caller, Path, Problem, Query};

/// Runs that the grid and the trend look at.
const CELLS: i64 = 400;

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    from: Option<i64>,
    to: Option<i64>,
    /// The instant that is asked about.
    at: String,
}

pub async fn made(
    app: App,
    caller: Caller,
    (Path(name), Query(ask)): (Path<String>, Query<Ask>),
) -> Result<Made, Problem> {
    let name = name.as_str();
    let db = app.reading.db();
    let detail = app.ask(&Job { job: name.to_owned() }).await?;
    let filter = reading::RunFilter {
        job: Some(name.to_owned()),
        ..reading::RunFilter::default()
    };
    let few = Paging::first(10);
    let (cells, newest) =
        tokio::try_join!(reading::cells(db, name, CELLS), reading::runs(db, &filter, &few))?;
    let revisions = reading::revisions(db, name, &few).await?;
    let diff = reading::diff(db, name, ask.from, ask.to).await?;
    let at = Some(ask.at.trim()).filter(|text| !text.is_empty());
    let zone = TimeZone::get(&detail.job.timezone).unwrap_or(TimeZone::UTC);
    let at = at.map(|text| moment("at", text, &zone)).transpose()?;
    // Of a definition that only a newer version can read, the rest of the page is complete.
    let explanation = match reading::explain(db, name, at).await {
        Err(StoreError::Refused(why)) => Err(why),
        explained => Ok(explained?),
    };
    let now = detail.db_now;
    // The one question that looks at thousands of runs: what it cannot say in time must not keep the rest back.
    let days = reading::days_in(db, name, &detail.job.timezone, detail.db_now, reading::MOST_DAYS).await;
    let content = html! {
        (head(&detail, &caller))
        div class="cols" {
            section class="card" id="job-when" data-live {
                header { h2 { "When" } }
                div class="body" { (when(&detail)) }
            }
            section class="card" {
                header {
                    h2 { "Why it does or does not run" }
                    form class="filter push" method="get" action=(link::job(name)) {
                        label { "At (" (detail.job.timezone) ")" input type="datetime-local" name="at" value=(ask.at); }
                        button { "Ask" }
                    }
                }
                div id="job-explain" data-live {
                    @match &explanation {
                        Ok(known) => (explained(known, now)),
                        Err(why) => p class="callout warn" { (why) },
                    }
                }
            }
        }
        section class="card" {
            header { h2 { "The last " (reading::MOST_DAYS) " days" } span class="muted" { "in " (days.as_ref().map_or(&detail.job.timezone, |days| &days.timezone)) ", each run on the day it ended" } }
            div id="job-days" data-live { @match &days { Ok(days) => (days::days(days)), Err(error) => (days::unread(error)) } }
        }
        section class="card" {
            header { h2 { "How its runs went" } (log::search(&format!("{}/matches", link::job(name)), &log::Searched::default(), true)) span class="push" { a href=(link::query("/runs", &[("job", name)])) { "All its runs" } } }
            div id="job-grid" data-live { (grid::grid(&cells)) }
            div id="job-trend" data-live { (trend::trend(&cells, now)) }
            div id="job-runs" data-live {
                @if newest.items.is_empty() { p class="empty muted" { "It has not run yet." } } @else { (runs::table(&newest.items, now)) }
            }
        }
        (definition::card(&detail, &revisions.items, diff.as_ref()))
        (cli(&format!("farmhand job show {name}")))
    };
    Ok(Made::new(name, Section::Jobs, now, 0, content))
}

fn head(detail: &JobDetail, caller: &Caller) -> Markup {
    let job = &detail.job;
    let ask = |verb| button_of(verb, &job.job_id, Some(&job.job_id), caller);
    html! {
        div id="job-head" class="head" data-live {
            div class="grow" {
                div class="crumbs" { a href="/jobs" { "Jobs" } " /" }
                h1 { (job.job_id) " " (jobs::sign(job).markup()) }
            }
            (strip(&jobs::outcomes(job)))
            div class="actions" {
                (ask(Verb::Run))
                @match job.state {
                    JobState::Enabled | JobState::Observing => (ask(Verb::Pause)),
                    JobState::Paused => (ask(Verb::Resume)),
                    JobState::Disabled => {},
                }
            }
        }
    }
}

fn when(detail: &JobDetail) -> Markup {
    let (job, now) = (&detail.job, detail.db_now);
    html! {
        @if let Some(text) = &job.description { p class="body" { (text) } }
        dl class="pairs" {
            @if let Some(owner) = &job.owner { dt { "Owner" } dd { (owner) } }
            @if !job.tags.is_empty() { dt { "Tags" } dd { @for tag in &job.tags { span class="tag" { (tag) } " " } } }
            // A definition of another version may hold anything.
            @if let Some(link) = job.runbook.as_ref().filter(|l| l.starts_with("https://") || l.starts_with("http://")) {
                dt { "Runbook" } dd { a href=(link) rel="noreferrer" { (link) } }
            }
            dt { "Source" } dd { (job.source) }
            dt { "In words" } dd { (job.schedule_text) }
            @if !job.schedule.is_empty() {
                dt { "As written" } dd { @for text in &job.schedule { code { (text) } " " } "in " (job.timezone) }
            }
            @if job.state == JobState::Paused {
                dt { "Paused" }
                dd {
                    @if let Some(by) = &job.paused_by { "by " (by) " " }
                    @if let Some(at) = job.paused_at { (ago(at, now)) }
                    @if let Some(why) = &job.pause_reason { ": " (why) }
                }
            }
            dt { "Next" } dd { @if let Some(at) = job.next_run { (both(at, now)) } @else { (none()) } }
            @if job.each_node { dt { "Where" } dd { "on each node" } }
            @if !job.placement.is_empty() {
                dt { "Labels" } dd { @for (key, value) in job.placement.pairs() { span class="tag" { (key) "=" (value) } " " } }
            }
            dt { "Last success" } dd { @if let Some(at) = job.last_success { (both(at, now)) } @else { "never" } }
            @if job.consecutive_failures > 0 { dt { "Failures in a row" } dd { (job.consecutive_failures) } }
        }
        @if !detail.next.is_empty() {
            details id="next-ten" {
                summary { "The next " (detail.next.len()) " instants" @if job.state != JobState::Enabled { ", none of which runs while it is " (job.state) } }
                ol { @for at in &detail.next { li { (both(*at, now)) } } }
            }
        }
    }
}

fn explained(explanation: &Explanation, now: Timestamp) -> Markup {
    // That the next instant is still to come is how it should be.
    let waits = explanation.held_by == Some(Gate::Fired) || explanation.held_by == Some(Gate::Schedule);
    let held = explanation.held_by.is_some() && !waits;
    html! {
        div class="body" {
            p class=(if held { "callout warn" } else if waits { "callout" } else { "callout ok" }) { (linked(&explanation.answer)) }
            details id="gates" open[held] {
                summary { "Every gate that a run passes" }
                ul class="gates" {
                    @for gate in &explanation.gates {
                        li {
                            @if gate.open { (words::OPEN.markup()) } @else if waits { (words::NOT_YET.markup()) } @else { (words::CLOSED.markup()) }
                            " " (linked(&gate.what))
                            @if let Some(since) = gate.since { ", " (ago(since, now)) }
                            @if let Some(frees) = &gate.frees { br; small { "What opens it: " (linked(frees)) } }
                        }
                    }
                }
            }
        }
    }
}
