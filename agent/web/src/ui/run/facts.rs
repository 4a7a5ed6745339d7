//! What is known of a run, in pairs.

use farmhand_core::definition::param_text;
use farmhand_core::run::RunState;
use farmhand_store::reading::RunDetail;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::attempts::{cpu, memory};
use crate::ui::parts::link;
use crate::ui::parts::time::{ago, both, bytes};

pub fn pairs(detail: &RunDetail) -> Markup {
    let (run, now) = (&detail.run, detail.db_now);
    html! {
        dl class="pairs" {
            dt { "Job" } dd { a href=(link::job(&run.job_id)) { (run.job_id) } ", revision " (run.rev) }
            dt { "Kind" } dd { (run.kind) @if run.by_hand { ", by hand" } @if run.instances > 1 { ", shard " (run.instance) " of " (run.instances) } }
            dt { "Due" } dd { (both(run.due_at, now)) @if run.count > 1 { ", " (run.count) " instants until " (both(run.last_due, now)) } }
            (moment("Claimed", run.claimed_at, now))
            (moment("Started", run.started_at, now))
            (moment("Ended", run.finished_at, now))
            (alive(detail))
            @if let Some(by) = &run.submitted_by { dt { "Asked by" } dd { (by) } }
            @if let Some(by) = &detail.cancel_by { dt { "Cancelled by" } dd { (by) } }
            @if let Some(key) = &run.idempotency_key { dt { "Idempotency key" } dd class="mono" { (key) } }
            @if let Some(key) = &run.key { dt { "Key of its row" } dd class="mono" { (key) } }
            @if let Some(parent) = run.parent_run { dt { "Repeats" } dd { a href=(link::run(parent)) { "run " (parent) } } }
            @if let Some(Value::Object(parents)) = &run.parents {
                dt { "Triggered by" }
                dd { @for (job, id) in parents { a href=(format!("/runs/{id}")) { (job) " run " (id) } " " } }
            }
            dt { "Retries" } dd { (run.retries) ", takeovers " (run.takeovers) }
            @if let Some(code) = run.exit_code { dt { "Exit code" } dd { (code) } }
            @if let Some(signal) = run.signal { dt { "Signal" } dd { (signal) } }
            @if run.state.is_final() {
                dt { "CPU" } dd { (cpu(run.cpu_ms)) ", memory at most " (memory(run.max_rss_bytes)) }
            }
            @if let Some(n) = run.output_bytes {
                dt { "Output" }
                dd { (bytes(n)) @if let Some(dropped) = run.output_dropped.filter(|d| *d > 0) { ", of which " (bytes(dropped)) " were not kept (the job’s output.keep)" } }
            }
            dt { "Parameters" }
            dd {
                @if run.params.as_object().is_some_and(|p| !p.is_empty()) {
                    @for (name, value) in run.params.as_object().into_iter().flatten() { code { (name) "=" (param_text(value)) } " " }
                } @else { "none" }
            }
        }
    }
}

fn moment(word: &str, at: Option<Timestamp>, now: Timestamp) -> Markup {
    html! { @if let Some(at) = at { dt { (word) } dd { (both(at, now)) } } }
}

/// Of a run that runs: heartbeat, progress, and by when it has to be over.
fn alive(detail: &RunDetail) -> Markup {
    let (run, now) = (&detail.run, detail.db_now);
    html! {
        @if let Some(until) = detail.lease_until.filter(|_| run.state == RunState::Running) {
            dt { "Lease of its node" }
            dd { @if until < now { "over since " } @else { "until " } (both(until, now)) }
        }
        @if let Some(end) = detail.hard_end.filter(|_| run.state == RunState::Running) {
            dt { "Ended at the latest" } dd { (both(end, now)) }
        }
        @if let Some(progress) = &detail.progress {
            dt { "Progress" }
            dd { "reported " (ago(progress.at, now)) ", by attempt " (progress.attempt)
                @if let Some(checkpoint) = progress.checkpoint.as_deref().filter(|_| detail.stream.is_none()) { ": " code { (checkpoint) } } }
        }
        @if let Some(stream) = &detail.stream {
            dt { "Lines" }
            dd { (stream.succeeded) " done, " (stream.failed) " given up; the lowest unfinished is " (stream.line) }
        }
    }
}
