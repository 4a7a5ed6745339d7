//! Nodes: slots, labels, sessions, clocks, and what withholds them.

use std::cmp::Reverse;
use std::time::Duration;

use farmhand_store::reading::{self, EventsFilter, MOST, NodeItem, NodeState, Paging};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;

use super::Made;
use super::actions::{Verb, button_of};
use super::events::sentences;
use super::fields::{choice, maybe};
use super::layout::Section;
use super::parts::sort::{First, Sort, head};
use super::parts::time::{ago, both, since, took};
use super::parts::{BY_NAME, cli, empty, link, meter, none, pager, scroll, words};
use crate::{App, Caller, Path, Problem, Query};

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    #[serde(deserialize_with = "maybe")]
    state: Option<NodeState>,
    sort: String,
    cursor: String,
}

/// What the list can be sorted by; by address without one.
const SORTS: [&str; 3] = ["", "state", "running"];

pub async fn list(app: App, caller: Caller, Query(ask): Query<Ask>) -> Result<Made, Problem> {
    choice("sort", &ask.sort, &SORTS, |word| word)?;
    let db = app.reading.db();
    let now = reading::now(db).await?;
    let paging = Paging {
        cursor: Some(ask.cursor.clone()),
        limit: Some(MOST),
    };
    let mut page = reading::nodes(db, ask.state, &paging).await?;
    // What one page holds is sorted; of more than that, only a part would be.
    let fields: [(&str, &str); 1] = [("state", ask.state.map_or("", NodeState::as_str))];
    let sort = (page.next.is_none() && ask.cursor.is_empty()).then(|| Sort {
        path: "/nodes",
        fields: &fields,
        by: &ask.sort,
    });
    if sort.is_some() {
        order(&mut page.items, &ask.sort);
    }
    let content = html! {
        div class="head" { h1 class="grow" { "Nodes" } }
        section class="card" {
            header {
                form class="filter" method="get" action="/nodes" {
                    label { "State"
                        select name="state" data-filter {
                            option value="" selected[ask.state.is_none()] { "any" }
                            @for state in NodeState::ALL { option value=(state) selected[Some(*state) == ask.state] { (state) } }
                        }
                    }
                    @if !ask.sort.is_empty() { input type="hidden" name="sort" value=(ask.sort); }
                    button { "Filter" }
                }
            }
            div id="nodes" data-live {
                @if page.items.is_empty() {
                    (empty("No node here", "Each server of the farm runs one agent. Start one, on this machine or another, and it is a node.",
                        "FARMHAND_DATABASE_URL=postgresql://… farmhand agent --slots 4"))
                } @else { (table(&page.items, sort.as_ref(), now, &caller)) }
                (pager(BY_NAME, ("/nodes", &fields), &ask.cursor, page.next.as_deref()))
            }
        }
    };
    Ok(Made::new("Nodes", Section::Nodes, now, 5, content))
}

/// By name as they come; else what is worst, or has most to do, first.
fn order(nodes: &mut [NodeItem], by: &str) {
    const WORST_FIRST: [NodeState; 7] = [
        NodeState::Lost,
        NodeState::Expired,
        NodeState::Blocked,
        NodeState::Draining,
        NodeState::Cordoned,
        NodeState::Ready,
        NodeState::Closed,
    ];
    match by {
        "state" => nodes.sort_by_key(|node| WORST_FIRST.iter().position(|state| *state == node.state)),
        "running" => nodes.sort_by_key(|node| Reverse(node.running)),
        _ => {}
    }
}

fn table(nodes: &[NodeItem], sort: Option<&Sort<'_>>, now: Timestamp, caller: &Caller) -> Markup {
    scroll(
        "stack",
        html! {
            (head(sort, "Node", "", First::Smallest, "By address"))
            (head(sort, "State", "state", First::Largest, "The worst first"))
            (head(sort, "Slots", "running", First::Largest, "By running jobs, the most first"))
            th { "Last heartbeat" } th class="num" { "Session" }
            th { "Since" } th { "Clock" } th { "Labels" } th { "Version" } th { span class="sr" { "Actions" } }
        },
        nodes.iter().map(|node| {
            html! {
                tr id=(format!("node-{}", node.address)) data-row {
                    td class="name" {
                        a href=(link::node(&node.address)) { (node.address) }
                        @if node.name != node.address { br; small { (node.name) } }
                    }
                    td { (words::node(node.state.as_str()).markup()) (withheld(node, now)) }
                    td class="nowrap" { (slots(node)) }
                    td class="nowrap" data-l="last sign" { (ago(sign_of_life(node), now)) }
                    td class="num" data-l="session" { (node.session) }
                    td class="nowrap" data-l="since" { (ago(node.started_at, now)) }
                    td class="nowrap" data-l="clock" { (clock(node)) }
                    td { (labels(node)) }
                    td class="nowrap" data-l="version" { (node.version) }
                    td { (actions(node, caller)) }
                }
            }
        }),
    )
}

/// When it renewed its lease last.
fn sign_of_life(node: &NodeItem) -> Timestamp {
    let ttl = SignedDuration::from_millis(node.ttl_ms);
    node.lease_until.checked_sub(ttl).unwrap_or(node.lease_until)
}

fn slots(node: &NodeItem) -> Markup {
    meter(node.in_use(), i64::from(node.slots), "slots")
}

/// How far its clock is from the database's; from a second on it stands out, as jobs seem to begin late or early.
fn clock(node: &NodeItem) -> Markup {
    let Some(ms) = node.clock_offset_ms else {
        return none();
    };
    let far = Duration::from_millis(ms.unsigned_abs());
    let class = if far >= Duration::from_secs(1) {
        "t-bad"
    } else {
        ""
    };
    html! {
        @match ms {
            0 => "exact",
            1.. => span class=(class) { (took(far)) " behind" },
            _ => span class=(class) { (took(far)) " ahead" },
        }
    }
}

fn labels(node: &NodeItem) -> Markup {
    html! {
        @if node.labels.is_empty() { (none()) }
        @for (key, value) in &node.labels { span class="tag" { (key) "=" (value) } " " }
    }
}

fn withheld(node: &NodeItem, now: Timestamp) -> Markup {
    let is = matches!(node.state, NodeState::Cordoned | NodeState::Draining);
    html! {
        @if is { @if let Some(by) = &node.withheld_by { br; small { "by " (by) } } }
        @if let (NodeState::Blocked, Some(why)) = (node.state, &node.cannot_start) { br; small { (why) } }
        @if let Some(until) = node.drain_until.filter(|_| is) { br; small { "ends what runs " (ago(until, now)) } }
        @if let Some(at) = node.lost_at { br; small { "expired " (ago(at, now)) } }
    }
}

fn actions(node: &NodeItem, caller: &Caller) -> Markup {
    let ask = |verb| button_of(verb, &node.address, None, caller);
    html! {
        div class="actions" {
            @match node.state {
                NodeState::Cordoned | NodeState::Draining => (ask(Verb::ResumeNode)),
                NodeState::Closed | NodeState::Lost => {},
                _ => { (ask(Verb::Cordon)) (ask(Verb::Drain)) },
            }
        }
    }
}

pub async fn one(app: App, caller: Caller, Path(address): Path<String>) -> Result<Made, Problem> {
    let address = address.as_str();
    let db = app.reading.db();
    let now = reading::now(db).await?;
    let node = farmhand_control::nodes::one(db, address).await?;
    let filter = EventsFilter {
        node: Some(address.to_owned()),
        ..EventsFilter::default()
    };
    let events = reading::events(db, &filter, &Paging::first(15)).await?;
    let more = link::query("/events", &[("node", address)]);
    let content = html! {
        div id="node-head" class="head" data-live {
            div class="grow" {
                div class="crumbs" { a href="/nodes" { "Nodes" } " /" }
                h1 { (node.address) " " (words::node(node.state.as_str()).markup()) }
            }
            (actions(&node, &caller))
        }
        div class="cols" {
            section class="card" id="node-facts" data-live {
                header { h2 { "Session" } }
                div class="body" { (facts(&node, now)) }
            }
            section class="card" id="node-runs" data-live {
                header { h2 { "Holds" } span class="push" { a href=(link::query("/runs", &[("node", address)])) { "All its runs" } } }
                @if node.runs.is_empty() { p class="empty muted" { "It runs nothing now." } } @else { (held(&node, now)) }
            }
        }
        section class="card" {
            header { h2 { "Events" } span class="push" { a href=(more) { "All of them" } } }
            div id="node-events" data-live { (sentences(&events.items, now)) }
        }
        (cli(&format!("farmhand node show {address}")))
    };
    Ok(Made::new(node.address.clone(), Section::Nodes, now, 5, content))
}

fn facts(node: &NodeItem, now: Timestamp) -> Markup {
    html! {
        dl class="pairs" {
            dt { "Slots" } dd { (slots(node)) }
            dt { "Session" } dd { (node.session) ", since " (both(node.started_at, now)) }
            dt { "Last heartbeat" } dd { (ago(sign_of_life(node), now)) " (expected every " (node.ttl_ms / 4_000) " s)" }
            dt { "Lease until" } dd { (both(node.lease_until, now)) " " small { "informational only" } }
            dt { "Clock" } dd { (clock(node)) " " small { "compared with the database’s, when it renewed last" } }
            dt { "Labels" } dd { (labels(node)) }
            dt { "Version" } dd { (node.version) }
            @if let (NodeState::Blocked, Some(why)) = (node.state, &node.cannot_start) { dt { "Claims nothing" } dd { (why) } }
            @if let Some(by) = &node.withheld_by { dt { "Last withheld" } dd { "by " (by) @if let Some(at) = node.withheld_at { ", " (ago(at, now)) } } }
            @if let Some(at) = node.lost_at { dt { "Expired by another" } dd { (both(at, now)) } }
        }
    }
}

fn held(node: &NodeItem, now: Timestamp) -> Markup {
    scroll(
        "stack",
        html! { th { "Run" } th { "Job" } th class="num" { "Attempt" } th { "Fence" } th { "For" } },
        node.runs.iter().map(|run| {
            html! {
                tr data-row {
                    td { a href=(link::run(run.run_id)) { (run.run_id) } }
                    td { (run.job_id) @if run.cancel_requested { " " span class="tag" { "cancelling" } } }
                    td class="num" { (run.attempt) }
                    td class="fence" { (run.fence) }
                    td class="nowrap" { (since(run.claimed_at, now)) }
                }
            }
        }),
    )
}
