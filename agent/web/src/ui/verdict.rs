//! The verdict: a headline, its findings, and the counts of the farm.

use farmhand_store::reading::{About, FarmNow, Finding, Level};
use maud::{Markup, html};

use super::parts::icons::Icon;
use super::parts::time::{ago, since};
use super::parts::{link, words};

/// In a few words.
pub fn headline(farm: &FarmNow) -> &'static str {
    match farm.level {
        Level::Well => "All well",
        Level::Attention => "Attention",
        Level::Trouble => "Trouble",
    }
}

/// The first card of the first page.
pub fn section(farm: &FarmNow) -> Markup {
    let (class, icon) = match farm.level {
        Level::Well => ("ok", Icon::Check),
        Level::Attention => ("warn", Icon::Alert),
        Level::Trouble => ("bad", Icon::Cross),
    };
    let findings = &farm.findings;
    html! {
        section id="verdict" data-live class=(format!("card verdict {class}")) aria-live="polite" {
            div class="lead" {
                h1 { (icon.markup()) span { (headline(farm)) @if let Some(worst) = findings.first() { ": " (finding(worst)) } } }
            }
            @if findings.len() > 1 { ul { @for found in &findings[1..] { li { (finding(found)) } } } }
            (others(farm))
            (facts(farm))
        }
    }
}

/// A sentence that leads to what it is about.
fn finding(found: &Finding) -> Markup {
    let href = match &found.about {
        About::Run(run) => link::run(*run),
        About::Job(job) => link::job(job),
        About::Node(node) => link::node(node),
        About::Jobs(state) => link::query("/jobs", &[("state", state)]),
        About::Nodes(state) => link::query("/nodes", &[("state", state)]),
        About::Epoch => return html! { (found.text) },
    };
    html! { a href=(href) { (found.text) } }
}

/// A finding names only the first of its kind. These are the next ones.
fn others(farm: &FarmNow) -> Markup {
    let now = farm.db_now;
    let named = |node: &str| (farm.findings.iter()).any(|f| f.about == About::Node(node.to_owned()));
    let late: Vec<_> = farm.overdue.iter().skip(1).collect();
    let stuck: Vec<_> = farm.stuck.iter().skip(1).collect();
    let nodes: Vec<_> = (farm.lost.iter())
        .filter(|n| !named(&n.address))
        .skip(1)
        .collect();
    let blocked: Vec<_> = farm.blocked.iter().skip(1).collect();
    let slow: Vec<_> = (farm.slow.iter())
        .filter(|r| farm.stuck.iter().all(|stuck| stuck.run_id != r.run_id))
        .skip(1)
        .collect();
    let failing: Vec<_> = farm.failing.iter().skip(1).collect();
    html! {
        @if late.len() + stuck.len() + nodes.len() + blocked.len() + slow.len() + failing.len() > 0 {
            ul class="others" {
                @for job in late.iter().take(4) {
                    li { span class="state t-bad" { (Icon::Clock.markup()) "late" }
                        span { a href=(link::job(&job.job_id)) { (job.job_id) } ", due " (ago(job.next_run, now)) } }
                }
                @for lease in stuck.iter().take(4) {
                    li { span class="state t-bad" { (Icon::Wait.markup()) "stuck" }
                        span { a href=(link::run(lease.run_id)) { "run " (lease.run_id) } " of " (lease.job_id) " on "
                            a href=(link::node(&lease.node)) { (lease.node) } ", " (lease.state) " for " (since(lease.since, now)) } }
                }
                @for node in nodes.iter().take(4) {
                    li { (words::node(node.state.as_str()).markup())
                        span { a href=(link::node(&node.address)) { (node.address) } ", since " (ago(node.since, now)) } }
                }
                @for node in blocked.iter().take(4) {
                    li { (words::node("blocked").markup())
                        span { a href=(link::node(node)) { (node) } ", cannot start runs" } }
                }
                @for run in slow.iter().take(4) {
                    li { span class="state t-warn" { (Icon::Clock.markup()) "longer than usual" }
                        span { a href=(link::run(run.run_id)) { "run " (run.run_id) } " of " (run.job_id) " on "
                            a href=(link::node(&run.node)) { (run.node) } ", for " (since(run.started_at, now)) } }
                }
                @for job in failing.iter().take(4) {
                    li { span class="state t-bad" { (Icon::Cross.markup()) "failing" }
                        span { a href=(link::job(&job.job_id)) { (job.job_id) } ", " (job.consecutive_failures) @if job.consecutive_failures == 1 { " failure" } @else { " failures in a row" }
                            @if let Some(at) = job.last_success { "; last success " (ago(at, now)) } @else { "; has never succeeded" } } }
                }
                @if failing.len() > 4 {
                    li { a href="/jobs?state=failing" { "and " (failing.len() - 4) @if failing.len() >= 19 { " or more" } " other failing jobs" } }
                }
            }
        }
    }
}

fn facts(farm: &FarmNow) -> Markup {
    html! {
        div class="facts" {
            @for (state, n) in &farm.nodes { span { b { (n) } " " (words::node(state.as_str()).word) } }
            span { b { (farm.running) " of " (farm.slots) } " slots in use" }
            span { b { (farm.due) } " due" }
            span { b { (farm.waiting) } " waiting" }
        }
    }
}
