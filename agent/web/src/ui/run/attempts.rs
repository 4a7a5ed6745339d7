//! The attempts of a run: as the facts of a picture, and as rows.

use std::collections::BTreeMap;

use farmhand_core::document::from_millis;
use farmhand_store::reading::{BarEnd, RunDetail};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::stretch;
use crate::ui::lanes::{AttemptFact, Facts, NodeFact};
use crate::ui::parts::time::{both, ran, took};
use crate::ui::parts::{link, none, scroll, words};

/// Its attempts alone, on the nodes that they ran on.
pub fn facts(detail: &RunDetail) -> Facts {
    let run = &detail.run;
    let attempts: Vec<AttemptFact> = detail
        .attempts
        .iter()
        .map(|a| AttemptFact {
            run_id: run.run_id,
            job_id: run.job_id.clone(),
            attempt: a.attempt,
            address: a.address.clone(),
            session: a.session,
            fence: a.fence,
            from: a.claimed_at,
            to: a.ended_at,
            end: a.outcome,
            reason: a.reason.clone(),
            ran_ms: a.ran_ms,
        })
        .collect();
    let mut nodes: BTreeMap<&str, NodeFact> = BTreeMap::new();
    for a in &attempts {
        let node = nodes.entry(&a.address).or_insert_with(|| NodeFact {
            address: a.address.clone(),
            state: String::new(),
            session: a.session,
            slots: 0,
            running: 0,
        });
        node.state = a.end.as_str().to_owned();
        node.session = a.session;
    }
    Facts {
        nodes: nodes.into_values().collect(),
        attempts,
        ..Facts::default()
    }
}

/// From its first claim to the present, or to its end.
pub fn window(detail: &RunDetail) -> SignedDuration {
    let first = detail.attempts.iter().map(|a| a.claimed_at).min();
    let first: Option<Timestamp> = first.or(detail.run.claimed_at);
    stretch(first.unwrap_or(detail.db_now), end(detail))
}

/// Where the picture ends.
pub fn end(detail: &RunDetail) -> Timestamp {
    detail.run.finished_at.unwrap_or(detail.db_now)
}

pub fn table(detail: &RunDetail) -> Markup {
    let now = detail.db_now;
    // They are in the order of their numbers.
    let lost = |attempt: i32| {
        let before = detail.attempts.partition_point(|a| a.attempt < attempt);
        (detail.attempts[..before].last()).filter(|a| a.outcome == BarEnd::Lost)
    };
    scroll("", html! {
        th class="num" { "Attempt" } th { "Node" } th { "Fence" } th { "End" } th { "Claimed (UTC)" } th class="num" { "Took" }
        th { "Why" } th class="num" { "CPU" } th class="num" { "Memory" }
    }, detail.attempts.iter().rev().map(|a| html! {
        tr id=(format!("attempt-{}", a.attempt)) {
            td class="num" { (a.attempt) }
            td { (at(&a.address, a.session)) @if let Some(b) = lost(a.attempt) { br; small { "took over from " (b.address) } } }
            td class="fence" { (a.fence) }
            td { (words::named(a.outcome.as_str()).markup()) }
            td { (both(a.claimed_at, now)) }
            td class="num" { (took(ran(a.ran_ms, a.started_at.unwrap_or(a.claimed_at), a.ended_at.unwrap_or(now)))) }
            td { (why(a.reason.as_deref(), a.exit_code, a.signal)) }
            td class="num" { (cpu(a.cpu_ms)) }
            td class="num" { (memory(a.max_rss_bytes)) }
        }
    }))
}

fn at(node: &str, session: i64) -> Markup {
    html! { a href=(link::node(node)) { (node) } " " small { "session " (session) } }
}

pub fn why(reason: Option<&str>, exit: Option<i32>, signal: Option<i32>) -> Markup {
    html! {
        // A plain end's reason says how it ended.
        @let told = reason.is_some_and(|r| r.starts_with("exit code") || r.starts_with("ended by signal"));
        @if told { }
        @else if let Some(signal) = signal { "signal " (signal) " " }
        @else if let Some(code) = exit { "exit " (code) " " }
        @if let Some(reason) = reason { (reason) }
    }
}

pub fn cpu(ms: Option<i64>) -> Markup {
    ms.map_or_else(none, |ms| html! { (took(from_millis(ms))) })
}

pub fn memory(bytes: Option<i64>) -> Markup {
    bytes.map_or_else(none, |n| html! { (crate::ui::parts::time::bytes(n)) })
}
