//! The verdict: a headline, its findings, and the counts of the farm.

use farmhand_core::cause::{Cause, CauseKind};
use farmhand_core::verdict;
use farmhand_store::Role;
use farmhand_store::reading::{About, FarmNow, Finding, Level};
use maud::{Markup, html};

use super::act::{Verb, button};
use super::parts::icons::Icon;
use super::parts::time::{ago, clock, since};
use super::parts::{link, words};

/// In a few words.
pub fn headline(farm: &FarmNow) -> String {
    match farm.level {
        Level::Well if farm.findings.is_empty() => "All well".to_owned(),
        Level::Well => {
            let words = verdict::headline(&farm.findings);
            words.replacen('w', "W", 1)
        }
        Level::Attention => "Attention".to_owned(),
        Level::Trouble => "Trouble".to_owned(),
    }
}

/// The first card of the first page.
pub fn section(farm: &FarmNow, role: Role) -> Markup {
    let (class, icon) = match farm.level {
        Level::Well => ("ok", Icon::Check),
        Level::Attention => ("warn", Icon::Alert),
        Level::Trouble => ("bad", Icon::Cross),
    };
    let (open, known): (Vec<_>, Vec<_>) = farm.findings.iter().partition(|f| f.acknowledged.is_none());
    html! {
        section id="verdict" data-live class=(format!("card verdict {class}")) aria-live="polite" {
            div class="lead" {
                h1 { (icon.markup()) span { (headline(farm)) @if let Some(worst) = open.first() { ": " (finding(worst)) } } }
                @if let Some(cause) = open.first().and_then(|f| f.causes.first()) {
                    (button(Verb::Acknowledge, &cause.to_string(), role))
                }
            }
            @if open.len() > 1 { ul { @for found in &open[1..] { li { (finding(found)) (acknowledge(found.causes.first(), role)) } } } }
            (others(farm, role))
            @if !known.is_empty() { ul class="known" { @for found in known { (acknowledged(found, role)) } } }
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

/// A button for whom it is allowed: that it is not is said beside the first one alone.
fn acknowledge(cause: Option<&Cause>, role: Role) -> Markup {
    html! {
        @if let Some(cause) = cause.filter(|_| role >= Verb::Acknowledge.role()) {
            (button(Verb::Acknowledge, &cause.to_string(), role))
        }
    }
}

fn acknowledged(found: &Finding, role: Role) -> Markup {
    html! {
        li {
            span { (finding(found))
                @if let Some(known) = &found.acknowledged {
                    ", " span class="muted" { (known.told(&format!("{} UTC", clock(known.until)))) }
                }
            }
            @if let Some(cause) = found.causes.first().filter(|_| role >= Verb::Unacknowledge.role()) {
                (button(Verb::Unacknowledge, &cause.to_string(), role))
            }
        }
    }
}

/// A finding names only the first of its kind. These are the next ones, without those that are acknowledged.
fn others(farm: &FarmNow, role: Role) -> Markup {
    let now = farm.db_now;
    let known = |kind, name: &str| farm.acknowledged.contains_key(&Cause::of(kind, name));
    let named = |node: &str| (farm.findings.iter()).any(|f| f.about == About::Node(node.to_owned()));
    let gone = |state: &str| state.parse().unwrap_or(CauseKind::Lost);
    let late: Vec<_> = (farm
        .overdue
        .iter()
        .filter(|j| !known(CauseKind::Late, &j.job_id))
        .skip(1))
    .collect();
    let stuck: Vec<_> = (farm
        .stuck
        .iter()
        .filter(|l| !known(CauseKind::Stuck, &l.run_id.to_string()))
        .skip(1))
    .collect();
    let nodes: Vec<_> = (farm.lost.iter())
        .filter(|n| !named(&n.address) && !known(gone(n.state.as_str()), &n.address))
        .skip(1)
        .collect();
    let blocked: Vec<_> = (farm
        .blocked
        .iter()
        .filter(|n| !known(CauseKind::Blocked, n))
        .skip(1))
    .collect();
    let slow: Vec<_> = (farm.slow.iter())
        .filter(|r| !known(CauseKind::Slow, &r.run_id.to_string()))
        .filter(|r| farm.stuck.iter().all(|stuck| stuck.run_id != r.run_id))
        .skip(1)
        .collect();
    let failing: Vec<_> = (farm
        .failing
        .iter()
        .filter(|j| !known(CauseKind::Failing, &j.job_id))
        .skip(1))
    .collect();
    let may = |kind, name: &str| acknowledge(Some(&Cause::of(kind, name)), role);
    html! {
        @if late.len() + stuck.len() + nodes.len() + blocked.len() + slow.len() + failing.len() > 0 {
            ul class="others" {
                @for job in late.iter().take(4) {
                    li { span class="state t-bad" { (Icon::Clock.markup()) "late" }
                        span { a href=(link::job(&job.job_id)) { (job.job_id) } ", due " (ago(job.next_run, now)) }
                        (may(CauseKind::Late, &job.job_id)) }
                }
                @for lease in stuck.iter().take(4) {
                    li { span class="state t-bad" { (Icon::Wait.markup()) "stuck" }
                        span { a href=(link::run(lease.run_id)) { "run " (lease.run_id) } " of " (lease.job_id) " on "
                            a href=(link::node(&lease.node)) { (lease.node) } ", " (lease.state) " for " (since(lease.since, now)) }
                        (may(CauseKind::Stuck, &lease.run_id.to_string())) }
                }
                @for node in nodes.iter().take(4) {
                    li { (words::node(node.state.as_str()).markup())
                        span { a href=(link::node(&node.address)) { (node.address) } ", since " (ago(node.since, now)) }
                        (may(gone(node.state.as_str()), &node.address)) }
                }
                @for node in blocked.iter().take(4) {
                    li { (words::node("blocked").markup())
                        span { a href=(link::node(node)) { (node) } ", cannot start runs" }
                        (may(CauseKind::Blocked, node)) }
                }
                @for run in slow.iter().take(4) {
                    li { span class="state t-warn" { (Icon::Clock.markup()) "longer than usual" }
                        span { a href=(link::run(run.run_id)) { "run " (run.run_id) } " of " (run.job_id) " on "
                            a href=(link::node(&run.node)) { (run.node) } ", for " (since(run.started_at, now)) }
                        (may(CauseKind::Slow, &run.run_id.to_string())) }
                }
                @for job in failing.iter().take(4) {
                    li { span class="state t-bad" { (Icon::Cross.markup()) "failing" }
                        span { a href=(link::job(&job.job_id)) { (job.job_id) } ", " (job.consecutive_failures) @if job.consecutive_failures == 1 { " failure" } @else { " failures in a row" }
                            @if let Some(at) = job.last_success { "; last success " (ago(at, now)) } @else { "; has never succeeded" } }
                        (may(CauseKind::Failing, &job.job_id)) }
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
