//! The schedule ahead: job × hour, or job × day.

use farmhand_store::reading::{self, Ahead, Step};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::Made;
use super::layout::Section;
use super::parts::time::{ago, took};
use super::parts::{link, none};
use crate::{App, Caller, Problem, Query};

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    by: Step,
}

pub async fn made(app: App, _: Caller, Query(ask): Query<Ask>) -> Result<Made, Problem> {
    let db = app.reading.db();
    let step = ask.by;
    let now = reading::now(db).await?;
    let ahead = reading::ahead(db, now, step).await?;
    let choice = |by: Step, path: &str, words: &str| {
        html! { a href=(path) aria-current=[(by == step).then_some("true")] { (words) } }
    };
    let content = html! {
        div class="head" {
            h1 class="grow" { div class="crumbs" { a href="/jobs" { "Jobs" } " /" } "Schedule ahead" }
        }
        section class="card" {
            header { span class="choice" { (choice(Step::Hour, "/ahead", "next 24 hours")) " · " (choice(Step::Day, "/ahead?by=day", "next 7 days")) } }
            div id="ahead" data-live {
                @if ahead.jobs.is_empty() { p class="empty" { "No job of a schedule is due in this time." } }
                @else { (table(&ahead, step, now)) }
            }
        }
    };
    Ok(Made::new("Schedule ahead", Section::Jobs, now, 60, content))
}

fn table(ahead: &Ahead, step: Step, now: Timestamp) -> Markup {
    let columns = ahead.edges.len().saturating_sub(1);
    let form = match step {
        Step::Hour => "%H",
        Step::Day => "%a %d",
    };
    html! {
        p class="legend" {
            "How often each job is due, in UTC. How long it usually takes is the median of its last successes. "
            "Busy is how long all that is counted usually takes together."
            @if ahead.left_out > 0 { " " (ahead.left_out) " jobs that are due later are not shown." }
        }
        div class="scroll" tabindex="0" role="region" aria-label="Due instants ahead" { table class="ahead" {
            thead {
                tr { th { "Job" } th { "Next" } th class="num" { "Takes" } @for edge in &ahead.edges[..columns] { th class="num" { (edge.strftime(form)) } } }
                tr { th scope="row" colspan="3" { "Busy" } @for column in 0..columns { td class="num" { small { @let busy = ahead.busy(column); @if !busy.is_zero() { (took(busy)) } } } } }
            }
            tbody {
                @for job in &ahead.jobs {
                    tr id=(format!("ahead-{}", job.job_id)) data-row {
                        th scope="row" class="name" { a href=(link::job(&job.job_id)) { (job.job_id) } }
                        td class="nowrap" { (ago(job.first, now)) }
                        td class="num nowrap" { @match job.usual { Some(usual) => (took(usual.p50)), None => (none()) } }
                        @match &job.counts {
                            Some(counts) => @for n in counts { td class="num" { @if *n > 0 { (n) } } },
                            None => td colspan=(columns) { (job.schedule) },
                        }
                    }
                }
            }
        } }
    }
}
