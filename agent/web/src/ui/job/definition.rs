//! Its definition, and how it changed.

use farmhand_store::reading::{JobDetail, RevisionDiff, RevisionItem};
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::ui::parts::time::ago;
use crate::ui::parts::{cli, link, scroll};

pub fn card(detail: &JobDetail, revisions: &[RevisionItem], diff: Option<&RevisionDiff>) -> Markup {
    let job = &detail.job;
    html! {
        section class="card" id="definition" {
            header { h2 { "Definition" } span class="muted" { "revision " (job.rev) ", from " code { (job.source) } " by " (job.applied_by) " " (ago(job.applied_at, detail.db_now)) } }
            div class="cols" {
                div {
                    details id="spec" { summary class="body" { "All its keys" } div class="body" { pre { (shown(&detail.spec)) } } }
                    (compared(diff))
                }
                (listed(&job.job_id, revisions, detail.db_now))
            }
        }
    }
}

fn shown(spec: &Value) -> String {
    let mut spec = spec.clone();
    if let Some(keys) = spec.as_object_mut() {
        keys.retain(|_, value| !is_nothing(value));
    }
    // A value that came out of the database has a text.
    serde_json::to_string_pretty(&spec).unwrap_or_default()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn compared(diff: Option<&RevisionDiff>) -> Markup {
    html! {
        @if let Some(diff) = diff {
            h3 class="body" { "From revision " (diff.from) " to " (diff.to) }
            div class="diff" {
                @if diff.keys.is_empty() { div { "nothing differs" } }
                @for (key, change) in &diff.keys {
                    @if !change.old.is_null() { div class="del" { "− " (key) " = " (change.old) } }
                    @if !change.new.is_null() { div class="add" { "+ " (key) " = " (change.new) } }
                }
            }
        }
    }
}

fn listed(name: &str, revisions: &[RevisionItem], now: Timestamp) -> Markup {
    let here = link::job(name);
    html! {
        div {
            (scroll("", html! { th class="num" { "Revision" } th { "Applied" } th { "By" } th { "From" } th { span class="sr" { "Compare" } } }, revisions.iter().map(|revision| html! {
                tr {
                    td class="num" { (revision.rev) }
                    td class="nowrap" { (ago(revision.applied_at, now)) }
                    td { (revision.applied_by) }
                    td { (revision.source) }
                    td { @if revision.rev > 1 { a href=(link::query(&here, &[("to", &revision.rev.to_string())])) { "what it changed" } } }
                }
            })))
            div class="body" { p { "To roll back:" } (cli(&format!("farmhand job rollback {name} REVISION"))) }
        }
    }
}
