//! The first page: a verdict, then the picture, then what runs and what comes next.

use farmhand_core::run::RunState;
use farmhand_store::reading::{self, FarmNow, Paging, RunFilter, RunItem, Window};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;

use super::fields::choice;
use super::layout::Section;
use super::parts::time::{ago, both, since, span};
use super::parts::{empty, link, scroll, words};
use super::{Made, lanes, runs, verdict};
use crate::{App, Caller, Problem, Query};

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    window: String,
    job: String,
}

/// Stretches of time to choose from: the word in the address, and seconds.
const WINDOWS: [(&str, i64); 7] = [
    ("1m", 60),
    ("5m", 300),
    ("15m", 900),
    ("1h", 3_600),
    ("6h", 21_600),
    ("24h", 86_400),
    ("7d", 604_800),
];
const USUAL: (&str, i64) = ("15m", 900);

pub async fn made(app: App, _: Caller, Query(ask): Query<Ask>) -> Result<Made, Problem> {
    let db = app.reading.db();
    let job = Some(ask.job.trim().to_owned()).filter(|j| !j.is_empty());
    let (word, seconds) = match ask.window.as_str() {
        "" => USUAL,
        word => *choice("window", word, &WINDOWS, |(word, _)| word)?,
    };
    let window = SignedDuration::from_secs(seconds);
    let farm = reading::farm(db).await?;
    let now = farm.db_now;
    let shown = Window {
        from: now.checked_sub(window).unwrap_or(now),
        // Strictly before: what began this moment is wanted too.
        to: now.checked_add(SignedDuration::from_secs(1)).unwrap_or(now),
        nodes: Vec::new(),
        job: job.clone(),
    };
    let by_state = |states: &[RunState]| RunFilter {
        job: job.clone(),
        states: states.to_vec(),
        ..RunFilter::default()
    };
    let (live, bad) = (by_state(&[RunState::Running]), by_state(RunState::FAILURES));
    let (first, few) = (Paging::first(200), Paging::first(6));
    let (picture, nodes) = tokio::try_join!(reading::lanes(db, &shown), reading::nodes(db, None, &first))?;
    let (running, unwell) = tokio::try_join!(reading::runs(db, &live, &few), reading::runs(db, &bad, &few))?;
    let facts = lanes::facts(&picture, &nodes.items, now);
    let arranged = lanes::arrange(&facts, now, window);
    let content = html! {
        (verdict::section(&farm))
        @if !farm.any_job { (first_job()) }
        section class="card" id="lanes" {
            header {
                h2 { "Nodes and time" }
                (chooser(&ask, word))
            }
            div id="lanes-picture" data-live {
                @if arranged.lanes.is_empty() {
                    (empty("No node yet", "Each server of the farm runs one agent; it appears here as a lane.",
                        "FARMHAND_DATABASE_URL=postgresql://… farmhand agent --slots 4"))
                } @else {
                    (lanes::draw(&arranged, now))
                    (lanes::table(&facts, &arranged, now))
                }
            }
        }
        div class="cols" {
            section class="card" id="running" data-live {
                header { h2 { "Running" } span class="push" { a href="/runs?state=live" { "All queued and running" } } }
                @if running.items.is_empty() { p class="empty muted" { "Nothing runs at this moment." } }
                @else { (brief(&running.items, now)) }
            }
            section class="card" id="next" data-live {
                header { h2 { "Next due" } span class="push" { a href="/ahead" { "Schedule ahead" } } }
                (next(&farm))
            }
            section class="card" id="unwell" data-live {
                header { h2 { "Recent failures" } span class="push" { a href="/runs?state=bad&since=12h" { "Last 12 hours" } " · " a href="/runs?state=bad" { "All" } } }
                @if unwell.items.is_empty() { p class="empty muted" { "No run has failed, timed out or been lost." } }
                @else { (brief(&unwell.items, now)) }
            }
        }
    };
    Ok(Made::new(verdict::headline(&farm), Section::Now, now, 3, content))
}

fn first_job() -> Markup {
    html! {
        section class="card" {
            (empty("No job yet",
                "Write one in a file: a name, a schedule, a command. Agents pick it up by themselves.",
                "farmhand job apply jobs.toml"))
            div class="empty" { pre { "[job.hello]\nschedule = \"*/5 * * * *\"\ncommand  = [\"echo\", \"hello\"]" } }
        }
    }
}

fn chooser(ask: &Ask, word: &str) -> Markup {
    html! {
        form class="filter push" method="get" action="/" {
            label { "Job" input name="job" value=(ask.job) size="14" data-filter; }
            label { "Last"
                select name="window" {
                    @for (value, seconds) in WINDOWS {
                        option value=(value) selected[value == word] {
                            (span(std::time::Duration::from_secs(seconds.unsigned_abs())))
                        }
                    }
                }
            }
            button { "Show" }
        }
    }
}

fn brief(items: &[RunItem], now: Timestamp) -> Markup {
    scroll("stack", html! { th { "Run" } th { "Job" } th { "State" } th { "Node" } th class="num" { "Since" } }, items.iter().map(|run| html! {
        @let at = run.finished_at.or(run.started_at).or(run.claimed_at).unwrap_or(run.due_at);
        tr id=(format!("brief-{}", run.run_id)) data-row {
            td { a href=(link::run(run.run_id)) { (run.run_id) } }
            td class="name" { (run.job_id) @if run.attempt > 1 { " " span class="tag" { "attempt " (run.attempt) } } }
            td { (words::run(run.state).markup()) @if let Some(why) = runs::why(run) { br; small { (why) } } }
            td class="nowrap" { (run.running_at.as_deref().unwrap_or("–")) }
            td class="num" { @if run.state.is_final() { (ago(at, now)) } @else { (since(at, now)) } }
        }
    }))
}

fn next(farm: &FarmNow) -> Markup {
    html! {
        @if farm.next.is_empty() { p class="empty muted" { "No job has a next instant." } }
        @else {
            (scroll("stack", html! { th { "Job" } th { "Due (UTC)" } }, farm.next.iter().take(8).map(|next| html! {
                tr data-row {
                    td class="name" { a href=(link::job(&next.job_id)) { (next.job_id) } }
                    td { (both(next.next_run, farm.db_now)) }
                }
            })))
        }
    }
}
