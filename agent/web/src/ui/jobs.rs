//! Jobs: schedule in words and zone, what comes next, how the last runs went.

use farmhand_core::run::RunState;
use farmhand_store::reading::{self, JobCondition, JobItem, JobKind, JobOrder, JobState, JobsFilter, Paging};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::Made;
use super::fields::maybe;
use super::layout::Section;
use super::parts::sort::{First, Sort, head};
use super::parts::strip::strip;
use super::parts::time::{ago, both};
use super::parts::words::{self, Sign};
use super::parts::{BY_NAME, empty, link, none, pager, scroll};
use crate::{App, Caller, Problem, Query};
use farmhand_control::ask::pair;

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    name: String,
    #[serde(deserialize_with = "maybe")]
    state: Option<JobCondition>,
    #[serde(deserialize_with = "maybe")]
    kind: Option<JobKind>,
    label: String,
    #[serde(deserialize_with = "maybe")]
    sort: Option<JobOrder>,
    cursor: String,
}

pub async fn made(app: App, _: Caller, Query(ask): Query<Ask>) -> Result<Made, Problem> {
    let db = app.reading.db();
    let chosen = |text: &str| Some(text.trim().to_owned()).filter(|t| !t.is_empty());
    let filter = JobsFilter {
        name: chosen(&ask.name),
        state: ask.state,
        kind: ask.kind,
        label: pair("label", Some(&ask.label))?,
        order: ask.sort.unwrap_or_default(),
    };
    let paging = Paging {
        cursor: chosen(&ask.cursor),
        limit: Some(50),
    };
    let (now, page) = (
        reading::now(db).await?,
        reading::jobs(db, &filter, &paging).await?,
    );
    let (state, kind) = (
        ask.state.map_or("", JobCondition::as_str),
        ask.kind.map_or("", JobKind::as_str),
    );
    let fields: [(&str, &str); 4] = [
        ("name", &ask.name),
        ("state", state),
        ("kind", kind),
        ("label", &ask.label),
    ];
    let sort = Sort {
        path: "/jobs",
        fields: &fields,
        by: if filter.order == JobOrder::Name {
            ""
        } else {
            filter.order.as_str()
        },
    };
    let sorted = [&fields[..], &[("sort", sort.by)]].concat();
    let any = [&ask.name, state, kind, &ask.label, &ask.cursor];
    let content = html! {
        div class="head" { h1 class="grow" { "Jobs" } a href="/ahead" { "Schedule ahead" } }
        section class="card" {
            header { (filter_form(&ask)) }
            div id="jobs" data-live {
                @if !page.items.is_empty() { (table(&page.items, Some(&sort), now)) }
                @else if any.iter().all(|t| t.is_empty()) {
                    (empty("No job yet", "A job file says what to run, when and where. Agents pick up what is applied by themselves.",
                        "farmhand job apply jobs.toml"))
                } @else { p class="empty" { "No jobs match these filters. " a href="/jobs" { "Show all" } } }
                (pager(BY_NAME, ("/jobs", &sorted), &ask.cursor, page.next.as_deref()))
            }
        }
    };
    Ok(Made::new("Jobs", Section::Jobs, now, 0, content))
}

fn filter_form(ask: &Ask) -> Markup {
    let select = |name: &str, chosen: &str, values: &[&str]| {
        html! {
            select name=(name) {
                option value="" selected[chosen.is_empty()] { "any" }
                @for value in values { option value=(value) selected[*value == chosen] { (value) } }
            }
        }
    };
    let states: Vec<&str> = JobCondition::ALL.iter().map(|state| state.as_str()).collect();
    let kinds: Vec<&str> = JobKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let (state, kind) = (
        ask.state.map_or("", JobCondition::as_str),
        ask.kind.map_or("", JobKind::as_str),
    );
    html! {
        form class="filter" method="get" action="/jobs" {
            label { "Name" input name="name" value=(ask.name) size="18" data-filter placeholder="part of it"; }
            label { "State" (select("state", state, &states)) }
            label { "Kind" (select("kind", kind, &kinds)) }
            label { "Label" input name="label" value=(ask.label) size="11" placeholder="role=batch"; }
            @if let Some(sort) = ask.sort { input type="hidden" name="sort" value=(sort); }
            button { "Filter" }
        }
    }
}

/// The state in which the list shows a job: what is worse comes first.
pub fn sign(job: &JobItem) -> Sign {
    words::health(job.health)
}

fn table(jobs: &[JobItem], sort: Option<&Sort<'_>>, now: Timestamp) -> Markup {
    scroll("stack", html! {
        (head(sort, "Job", "", First::Smallest, "By name"))
        (head(sort, "State", "failures", First::Largest, "By failures in a row, the most first"))
        th { "When" }
        (head(sort, "Next (UTC)", "next", First::Smallest, "The soonest first"))
        th { "Last 30, the newest on the right" }
        (head(sort, "Last end", "last_end", First::Largest, "The latest first"))
    }, jobs.iter().map(|job| html! {
        tr id=(format!("job-{}", job.job_id)) data-row {
            td class="name" { a href=(link::job(&job.job_id)) { (job.job_id) } br; small { (job.kind) @if job.instances > 1 { ", " (job.instances) " shards" } @if job.each_node { ", on each node" } @if let Some(owner) = &job.owner { ", " (owner) } br; (job.source) } }
            td { (sign(job).markup()) (state_note(job)) }
            td { @if job.schedule_text.is_empty() { (none()) } @else { (job.schedule_text) } }
            td data-l="next" { @if let Some(at) = job.next_run { (both(at, now)) } @else { (none()) } }
            td { (strip(&outcomes(job))) }
            td class="nowrap" {
                @if let (Some(at), Some(state)) = (job.last_finished, job.last_state) {
                    (words::run(state).markup()) " " small { (ago(at, now)) }
                } @else { (none()) }
            }
        }
    }))
}

fn state_note(job: &JobItem) -> Markup {
    html! {
        @if job.state == JobState::Paused { @if let Some(by) = &job.paused_by { br; small { "by " (by) } } }
        @if job.consecutive_failures > 1 { br; small { (job.consecutive_failures) " failures in a row" } }
    }
}

/// The oldest first, what is live at the end.
pub fn outcomes(job: &JobItem) -> Vec<(i64, RunState)> {
    let ended = job.outcomes.iter().rev().map(|o| (o.run_id, o.state));
    let live = job
        .live
        .iter()
        .rev()
        .filter(|l| l.state == RunState::Running)
        .map(|l| (l.run_id, l.state));
    ended.chain(live).collect()
}
