//! Pools: who has their places, and who waits for one.

use std::cmp::Reverse;

use farmhand_control::ask::Pool;
use farmhand_store::pools::Holder;
use farmhand_store::reading::{self, MOST, Paging, PoolItem, PoolWaiter};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::Made;
use super::fields::choice;
use super::layout::Section;
use super::parts::sort::{First, Sort, head};
use super::parts::time::{ago, both, since};
use super::parts::{BY_NAME, cli, empty, link, meter, none, pager, scroll};
use crate::{App, Caller, Path, Problem, Query};

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    sort: String,
    cursor: String,
}

/// What the list can be sorted by; by name without one.
const SORTS: [&str; 3] = ["", "used", "waiting"];

pub async fn list(app: App, _: Caller, Query(ask): Query<Ask>) -> Result<Made, Problem> {
    choice("sort", &ask.sort, &SORTS, |word| word)?;
    let db = app.reading.db();
    let now = reading::now(db).await?;
    let paging = Paging {
        cursor: Some(ask.cursor.clone()).filter(|cursor| !cursor.is_empty()),
        limit: Some(MOST),
    };
    let mut page = reading::pools(db, &paging).await?;
    // As of nodes: what one page holds is sorted.
    let sort = (page.next.is_none() && ask.cursor.is_empty()).then_some(Sort {
        path: "/pools",
        fields: &[],
        by: &ask.sort,
    });
    match ask.sort.as_str() {
        "used" if sort.is_some() => page.items.sort_by_key(|pool| Reverse(pool.in_use)),
        "waiting" if sort.is_some() => page.items.sort_by_key(|pool| Reverse(pool.waiting)),
        _ => {}
    }
    let content = html! {
        div class="head" { h1 class="grow" { "Pools" } }
        section class="card" {
            div id="pools" data-live {
                @if page.items.is_empty() {
                    (empty("No pools", "A pool bounds how many runs of its jobs go on at once. Write [pool.NAME] with a size into a job file, name it \
                        in the jobs, and apply the file.", "farmhand job apply jobs.toml"))
                } @else { (table(&page.items, sort.as_ref(), now)) }
                (pager(BY_NAME, ("/pools", &[]), &ask.cursor, page.next.as_deref()))
            }
        }
    };
    Ok(Made::new("Pools", Section::Pools, now, 5, content))
}

fn table(pools: &[PoolItem], sort: Option<&Sort<'_>>, now: Timestamp) -> Markup {
    scroll("stack", html! {
        (head(sort, "Pool", "", First::Smallest, "By name"))
        (head(sort, "In use", "used", First::Largest, "By places in use, the most first"))
        th { "On nodes" }
        (head(sort, "Waiting", "waiting", First::Largest, "The most first"))
        th { "Longest wait" } th { "Jobs" }
    }, pools.iter().map(|pool| html! {
        tr id=(format!("pool-{}", pool.name)) data-row {
            td class="name" { a href=(link::pool(&pool.name)) { (pool.name) } }
            td class="nowrap" { (in_use(pool)) (resized(pool)) }
            td data-l="on nodes" { (on_nodes(pool)) }
            td data-l="waiting" { (waiting(pool)) }
            td class="nowrap" data-l="longest wait" {
                @match pool.waiters.first() { Some(first) => (since(first.ready_at, now)), None => (none()) }
            }
            td { (jobs(pool)) }
        }
    }))
}

fn in_use(pool: &PoolItem) -> Markup {
    meter(pool.in_use, i64::from(pool.size), "places")
}

fn resized(pool: &PoolItem) -> Markup {
    html! { @if pool.size != pool.file_size { " " span class="tag" { (pool.file_size) " in its file" } } }
}

/// Places of nodes: each node has as many as the pool's size.
fn on_nodes(pool: &PoolItem) -> Markup {
    html! {
        @if pool.on_nodes.is_empty() { (none()) }
        @for (node, used) in &pool.on_nodes { span class="tag" { a href=(link::node(node)) { (node) } " " (used) " of " (pool.size) } " " }
    }
}

fn waiting(pool: &PoolItem) -> Markup {
    html! { @if pool.waiting >= 1_000 { "1000 or more" } @else { (pool.waiting) } }
}

fn jobs(pool: &PoolItem) -> Markup {
    html! {
        @if pool.jobs.is_empty() { (none()) }
        @for job in &pool.jobs { a href=(link::job(job)) { (job) } " " }
    }
}

pub async fn one(app: App, _: Caller, Path(name): Path<String>) -> Result<Made, Problem> {
    let db = app.reading.db();
    let now = reading::now(db).await?;
    let pool = app.ask(&Pool { pool: name.clone() }).await?;
    let content = html! {
        div class="head" {
            div class="grow" { div class="crumbs" { a href="/pools" { "Pools" } " /" } h1 { (pool.name) } }
        }
        section class="card" id="pool-facts" data-live {
            header { h2 { "Places" } }
            div class="body" { dl class="pairs" {
                dt { "In use" } dd { (in_use(&pool)) (resized(&pool)) }
                dt { "On nodes" } dd { (on_nodes(&pool)) }
                dt { "Waiting" } dd { (waiting(&pool)) }
                dt { "Jobs" } dd { (jobs(&pool)) }
                dt { "Source" } dd { (pool.source) }
                dt { "Changed" } dd { (both(pool.changed_at, now)) " by " (pool.changed_by) }
            } }
        }
        div class="cols" {
            section class="card" id="pool-holders" data-live {
                header { h2 { "Who has a place" } }
                @if pool.holders.is_empty() { p class="empty muted" { "No run has a place in it." } } @else { (holders(&pool.holders, now)) }
            }
            section class="card" id="pool-waiters" data-live {
                header { h2 { "Who waits" } }
                @if pool.waiters.is_empty() { p class="empty muted" { "No run waits." } } @else { (waiters(&pool, now)) }
            }
        }
        (cli(&format!("farmhand pool set {name} {}", pool.size)))
    };
    Ok(Made::new(format!("Pool {name}"), Section::Pools, now, 5, content))
}

fn holders(holders: &[Holder], now: Timestamp) -> Markup {
    scroll(
        "stack",
        html! { th { "Run" } th { "Job" } th { "Node" } th { "Place" } th { "Since" } },
        holders.iter().map(|holder| {
            html! {
                tr data-row {
                    td { a href=(link::run(holder.run_id)) { (holder.run_id) } }
                    td class="name" { a href=(link::job(&holder.job_id)) { (holder.job_id) } }
                    td class="nowrap" data-l="on" { a href=(link::node(&holder.node)) { (holder.node) } }
                    td class="nowrap" { (if holder.per_node { "of the node" } else { "of the farm" }) }
                    td class="nowrap" data-l="since" { (ago(holder.since, now)) }
                }
            }
        }),
    )
}

fn waiters(pool: &PoolItem, now: Timestamp) -> Markup {
    let more = pool.waiting - i64::try_from(pool.waiters.len()).unwrap_or(0);
    let row = |run: &PoolWaiter| {
        html! {
            tr data-row {
                td { a href=(link::run(run.run_id)) { (run.run_id) } }
                td class="name" { a href=(link::job(&run.job_id)) { (run.job_id) } }
                td class="nowrap" data-l="for" { (since(run.ready_at, now)) }
            }
        }
    };
    html! {
        (scroll("stack", html! { th { "Run" } th { "Job" } th { "For" } }, pool.waiters.iter().map(row)))
        @if more > 0 { p class="legend" { (more) " more wait, for less time." } }
        p class="legend" { "The page of a waiting run says what exactly it waits for." }
    }
}
