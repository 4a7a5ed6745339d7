//! A run that is a flow: its graph, and when each task ran; the critical path is marked.

mod gantt;
mod graph;

use farmhand_control::Refusal;
use farmhand_control::runs::no_run;
use farmhand_core::document::from_millis;
use farmhand_store::reading::{self, FlowTask, FlowView};
use maud::{Markup, html};

use super::Made;
use super::layout::Section;
use super::parts::time::took;
use super::parts::words::{self, Sign};
use super::parts::{cli, link, none, scroll};
use crate::{App, Caller, Path, Problem};

pub async fn made(app: App, _: Caller, Path(id): Path<i64>) -> Result<Made, Problem> {
    let db = app.reading.db();
    let now = reading::now(db).await?;
    let Some(run) = reading::run_row(db, id).await? else {
        return Err(no_run(id).into());
    };
    let Some(view) = reading::flow(db, id).await? else {
        return Err(Refusal::not_found(format!("run {id} is not a flow"))
            .why("its job has no tasks")
            .next(format!("/runs/{id} shows the run"))
            .into());
    };
    let content = html! {
        div id="flow-head" class="head" data-live {
            div class="grow" {
                div class="crumbs" { a href=(link::job(&view.job_id)) { (view.job_id) } " / " a href=(link::run(id)) { "run " (id) } " /" }
                h1 { "Flow " (words::run(run.state).markup()) }
            }
        }
        section class="card" {
            header { h2 { "When each task ran" } }
            div id="flow-gantt" data-live {
                div class="body" { (summary(&view)) }
                (gantt::draw(&view))
                (table(&view))
            }
        }
        section class="card" {
            header { h2 { "What waits for what" } }
            div id="flow-graph" data-live { (graph::draw(&view)) }
        }
        (cli(&format!("farmhand run show {id}")))
    };
    let tick = if run.state.is_final() { 0 } else { 3 };
    Ok(Made::new(
        format!("Flow of run {id}"),
        Section::Runs,
        now,
        tick,
        content,
    ))
}

/// How far it is, and how close to its critical path it came.
pub fn summary(view: &FlowView) -> Markup {
    let ended = view.tasks.iter().filter(|t| t.end.is_some()).count();
    let ms = |ms: i64| took(from_millis(ms));
    html! {
        p { b { (ended) " of " (view.tasks.len()) } " tasks ended, in " b { (ms(view.elapsed_ms)) }
            @if view.critical_ms > 0 { "; the critical path alone takes " b { (ms(view.critical_ms)) } } "." }
        @if !view.critical_path.is_empty() {
            p class="muted" { "Critical path: " @for (n, task) in view.critical_path.iter().enumerate() { @if n > 0 { " → " } b { (task) } } }
        }
        @if let Some(dir) = &view.dir { p class="muted" { "Its tasks are the scripts in " code { (dir) } " on its node: only what has ended is known here." } }
    }
}

fn sign(task: &FlowTask) -> Sign {
    match &task.end {
        Some(end) => words::named(&end.end.outcome),
        None => words::NOT_YET,
    }
}

fn table(view: &FlowView) -> Markup {
    html! {
        details class="behind" id="flow-table" {
            summary { "The same as a table" }
            (scroll("", html! { th { "Task" } th { "End" } th class="num" { "Took" } th { "Waits for" } th { "Why" } th { "Node" } }, view.tasks.iter().map(|task| html! {
                tr {
                    td class="name" { (task.task) @if task.critical { " " span class="tag" { "critical" } } }
                    td { (sign(task).markup()) }
                    td class="num" { @if let Some(ms) = task.duration_ms { (took(from_millis(ms))) } @else { (none()) } }
                    td { (task.after.join(", ")) @if task.after.len() >= reading::NAMED { " …" } }
                    td {
                        @if let Some(end) = &task.end {
                            @if let Some(code) = end.end.exit_code.filter(|c| *c != 0) { "exit " (code) " " }
                            @if let Some(signal) = end.end.signal { "signal " (signal) " " }
                            @if let Some(reason) = &end.end.reason { (reason) " " }
                            @if !end.end.blame.is_empty() { "because of " (end.end.blame.join(", ")) }
                        }
                    }
                    td { @if let Some(node) = task.end.as_ref().and_then(|e| e.address.as_ref()) { (node) } }
                }
            })))
        }
    }
}
