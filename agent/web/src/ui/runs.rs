//! Runs by filter, the newest first.

use farmhand_control::{Refusal, past_moment};
use farmhand_core::run::RunState;
use farmhand_store::Role;
use farmhand_store::reading::{self, Paging, RunFilter, RunItem};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;
use serde::de::value::{self, MapDeserializer};

use super::Made;
use super::fields::choice;
use super::layout::Section;
use super::parts::icons::Icon;
use super::parts::time::{ago, ran, since, took};
use super::parts::{BY_TIME, empty, link, none, pager, scroll, words};
use crate::extract::names;
use crate::{App, Caller, Problem, Query};
use farmhand_control::ask::pair;

/// The filter as it stands in the address.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    job: String,
    state: String,
    node: String,
    label: String,
    param: String,
    since: String,
    until: String,
    /// IANA name: of `since` and `until`; UTC when it is empty.
    zone: String,
    cursor: String,
}

impl Ask {
    /// The fields of the filter, as the address has them: whatever acts on what is shown reads all of them.
    fn fields(&self) -> [(&'static str, &str); 8] {
        [
            ("job", &self.job),
            ("state", &self.state),
            ("node", &self.node),
            ("label", &self.label),
            ("param", &self.param),
            ("since", &self.since),
            ("until", &self.until),
            ("zone", &self.zone),
        ]
    }

    /// From what a form sent; what the filter does not have is left to others.
    pub fn of(sent: &[(String, String)]) -> Result<Self, Problem> {
        let known = names::<Self>().unwrap_or_default();
        let pairs = (sent.iter()).filter(|(name, _)| known.contains(&name.as_str()));
        let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_str()));
        let ask: Result<Self, value::Error> = Self::deserialize(MapDeserializer::new(pairs));
        ask.map_err(|e| Problem::bad_request(e.to_string()))
    }

    /// What the list shows, and so what is acted on below it.
    pub fn filter(&self, now: Timestamp) -> Result<RunFilter, Problem> {
        let chosen = |text: &str| Some(text.trim().to_owned()).filter(|t| !t.is_empty());
        let zone = zone(&self.zone)?;
        let time = |name, text: &str| {
            chosen(text)
                .map(|text| past_moment(name, &text, now, &zone))
                .transpose()
        };
        Ok(RunFilter {
            job: chosen(&self.job),
            states: states(&self.state)?.to_vec(),
            node: chosen(&self.node),
            since: time("since", &self.since)?,
            until: time("until", &self.until)?,
            label: pair("label", Some(&self.label))?,
            param: pair("param", Some(&self.param))?,
            ..RunFilter::default()
        })
    }

    /// Whether anything is filtered; a zone alone filters nothing.
    fn filters(&self) -> bool {
        (self.fields().iter()).any(|(name, value)| *name != "zone" && !value.is_empty())
    }
}

/// What the choice of states offers: its value, its word and the states it means.
const CHOICES: [(&str, &str, &[RunState]); 11] = [
    ("", "any", &[]),
    ("live", "due or running", &[RunState::Due, RunState::Running]),
    ("bad", "unsuccessful", RunState::FAILURES),
    ("due", "due", &[RunState::Due]),
    ("running", "running", &[RunState::Running]),
    ("succeeded", "succeeded", &[RunState::Succeeded]),
    ("failed", "failed", &[RunState::Failed]),
    ("timed_out", "timed out", &[RunState::TimedOut]),
    ("cancelled", "cancelled", &[RunState::Cancelled]),
    ("lost", "lost", &[RunState::Lost]),
    ("skipped", "skipped", &[RunState::Skipped]),
];

/// The states that a word of the filter means; none of "any".
fn states(word: &str) -> Result<&'static [RunState], Problem> {
    Ok(choice("state", word, &CHOICES, |(word, ..)| word)?.2)
}

fn zone(name: &str) -> Result<TimeZone, Problem> {
    match name.trim() {
        "" => Ok(TimeZone::UTC),
        name => TimeZone::get(name).map_err(|_| {
            Refusal::not_understood(format!("zone {name:?} is not a known time zone"))
                .next("write an IANA name, such as Europe/Berlin")
                .into()
        }),
    }
}

pub async fn made(app: App, caller: Caller, Query(ask): Query<Ask>) -> Result<Made, Problem> {
    let (ask, role) = (&ask, caller.role);
    let db = app.reading.db();
    let now = reading::now(db).await?;
    let filter = ask.filter(now)?;
    let paging = Paging {
        cursor: Some(ask.cursor.clone()).filter(|cursor| !cursor.is_empty()),
        limit: Some(50),
    };
    let page = reading::runs(db, &filter, &paging).await?;
    let content = html! {
        div class="head" { h1 class="grow" { "Runs" } }
        section class="card" {
            header { (filter_form(ask)) }
            form id="many" method="get" action="/act/retry-runs" {
                div id="runs" data-live {
                    @if page.items.is_empty() { (nothing(ask, page.next.is_some())) } @else {
                        (many(ask, &page.items, role))
                        (rows(&page.items, now, role >= Role::Operator))
                    }
                    (pager(BY_TIME, ("/runs", &ask.fields()), &ask.cursor, page.next.as_deref()))
                }
            }
        }
    };
    Ok(Made::new("Runs", Section::Runs, now, 0, content))
}

fn filter_form(ask: &Ask) -> Markup {
    html! {
        form class="filter" method="get" action="/runs" {
            label { "Job" input name="job" value=(ask.job) size="18" data-filter; }
            label { "State"
                select name="state" {
                    @for (value, word, _) in CHOICES { option value=(value) selected[value == ask.state] { (word) } }
                }
            }
            label { "Node" input name="node" value=(ask.node) size="10"; }
            label { "Label" input name="label" value=(ask.label) size="11" placeholder="role=batch" title="That the job’s where asks for"; }
            label { "Parameter" input name="param" value=(ask.param) size="11" placeholder="name=value"; }
            label { "Ended since" input name="since" value=(ask.since) size="14" placeholder="8h, or a time"; }
            label { "Until" input name="until" value=(ask.until) size="14"; }
            label { "In" input name="zone" value=(ask.zone) size="12" placeholder="UTC" title="The time zone of both times: an IANA name"; }
            button { "Filter" }
        }
    }
}

fn nothing(ask: &Ask, more: bool) -> Markup {
    if more {
        return html! { p class="empty muted" { "None of the runs looked through so far; older ones may be." } };
    }
    if !ask.filters() {
        return empty(
            "Nothing has run yet",
            "A run appears here when a job is due, or at once when you ask for one.",
            "farmhand job run JOB --wait",
        );
    }
    html! { p class="empty" { "No runs match these filters. " a href="/runs" { "Show all" } } }
}

/// What can be done with those that are ticked or, when none is, with all that the filter shows.
fn many(ask: &Ask, items: &[RunItem], role: Role) -> Markup {
    let live = items.iter().any(|run| !run.state.is_final());
    let over = items.iter().any(|run| run.state.is_final());
    html! {
        @if role >= Role::Operator {
            div class="many" {
                @for (name, value) in ask.fields() {
                    @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
                }
                @if over { button formaction="/act/retry-runs" { (Icon::Again.markup()) "Run these again" } }
                @if live { button class="bad" formaction="/act/cancel-runs" { (Icon::Stop.markup()) "Cancel these" } }
                small { @if ask.filters() { "All that the filter finds, on every page" @if ask.state.is_empty() { "; run again: only what failed, timed out or was lost" } "; run again: of each job the newest firing, unless you choose all. Tick runs to choose them alone." } @else { "Tick runs, or filter." } }
            }
        }
    }
}

/// Runs as rows; also for other pages.
pub fn table(runs: &[RunItem], now: Timestamp) -> Markup {
    rows(runs, now, false)
}

fn rows(runs: &[RunItem], now: Timestamp, ticks: bool) -> Markup {
    scroll(
        "stack",
        html! {
            th { "Run" } th { "State" } th { "Job" } th { "Due" } th { "Began" } th class="num" { "Took" }
            th { "Node" } th class="num" { "Attempt" } th class="wide" { "Why" }
        },
        runs.iter().map(|run| {
            html! {
                (row(run, now, ticks))
            }
        }),
    )
}

fn row(run: &RunItem, now: Timestamp, tick: bool) -> Markup {
    let began = run.started_at.or(run.claimed_at);
    html! {
        tr id=(format!("run-{}", run.run_id)) data-row {
            td class="nowrap" {
                @if tick { label class="tick" { input type="checkbox" name="run" value=(run.run_id) aria-label=(format!("run {}", run.run_id)); } }
                a href=(link::run(run.run_id)) { (run.run_id) }
            }
            td { (words::run(run.state).markup()) @if run.cancel_requested && !run.state.is_final() { " " span class="tag" { "cancelling" } } }
            td class="name" {
                a href=(link::job(&run.job_id)) { (run.job_id) }
                @if run.instances > 1 { " " span class="tag" { "shard " (run.instance) " of " (run.instances) } }
                @if run.count > 1 { " " span class="tag" { "× " (run.count) } }
                @if let Some(key) = &run.key { " " span class="tag" { "key " (key) } }
            }
            td class="nowrap" data-l="due" { (ago(run.due_at, now)) }
            td class="nowrap" data-l="began" { @if let Some(at) = began { (ago(at, now)) } @else { (none()) } }
            td class="num" data-l="took" {
                @match (began, run.finished_at) {
                    (Some(from), Some(to)) => (took(ran(run.ran_ms, from, to))),
                    (Some(from), None) if run.state == RunState::Running => (since(from, now)),
                    _ => (none()),
                }
            }
            td class="nowrap" data-l="on" { @if let Some(node) = &run.running_at { a href=(link::node(node)) { (node) } } @else { (none()) } }
            td class="num" data-l="attempt" { (run.attempt) @if run.takeovers > 0 { " " span class="tag" { (run.takeovers) " takeovers" } } }
            td class="wide" { @if let Some(why) = why(run) { (why) } @else { (none()) } }
        }
    }
}

/// The reason, or how its process ended.
pub fn why(run: &RunItem) -> Option<String> {
    if let Some(reason) = &run.reason {
        return Some(reason.clone());
    }
    match (run.exit_code, run.signal) {
        (_, Some(signal)) => Some(format!("signal {signal}")),
        (Some(code), _) if code != 0 => Some(format!("exit {code}")),
        _ => None,
    }
}
