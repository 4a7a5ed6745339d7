//! How long its runs took.

use std::time::Duration;

use farmhand_core::document::from_millis;
use farmhand_core::durations::{Usual, success_permille};
use farmhand_core::run::RunState;
use farmhand_store::reading::Cell;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::ui::parts::time::{ago, took};
use crate::ui::parts::{link, percent, scroll, words};

/// Runs in the trend.
const POINTS: usize = 120;
const HEIGHT: f64 = 72.0;

/// A bar per run that ended, the newest on the right.
pub fn trend(cells: &[Cell], now: Timestamp) -> Markup {
    let mut points: Vec<(&Cell, Duration)> = cells
        .iter()
        .filter(|c| c.state.is_final())
        .filter_map(|c| Some((c, from_millis(c.duration_ms?))))
        .take(POINTS)
        .collect();
    points.reverse();
    if points.len() < 2 {
        return html! {};
    }
    let most = points.iter().map(|(_, d)| *d).max().unwrap_or_default();
    let usual = usual(cells);
    let last = points.last().map(|(_, d)| *d).unwrap_or_default();
    let step = 100.0 / points.len() as f64;
    let tall = |d: Duration| (d.as_secs_f64() / most.as_secs_f64().max(1e-9) * (HEIGHT - 4.0)).max(1.5);
    html! {
        div class="body" {
            h3 { "Duration: last " (took(last)) @if let Some(u) = usual { ", p50 " (took(u.p50)) ", p95 " (took(u.p95)) ", longest " (took(u.longest)) } }
            p class="muted" { (rate(cells)) @if let Some(u) = usual { " Percentiles are of the last " (u.count) " that succeeded." } }
            svg class="spark pic" role="img" aria-label=(format!("Durations of {} runs; the table below says the same", points.len())) {
                @for (n, (cell, lasted)) in points.iter().enumerate() {
                    @let sign = words::run(cell.state);
                    rect class=(format!("f-{}", sign.colour.as_str())) x=(percent(n as f64 * step)) width=(percent(step * 0.8))
                        y=(format!("{:.1}", HEIGHT - tall(*lasted))) height=(format!("{:.1}", tall(*lasted))) {
                        title { "run " (cell.run_id) ", " (took(*lasted)) ", " (sign.word) }
                    }
                }
                @if let Some(u) = usual {
                    @let y = format!("{:.1}", HEIGHT - tall(u.p95));
                    line class="now" x1="0" x2="100%" y1=(y) y2=(y) stroke-dasharray="4 4" { title { "p95: " (took(u.p95)) } }
                }
            }
        }
        details class="behind" id="trend-table" {
            summary { "Durations as a table" }
            (scroll("", html! { th { "Run" } th { "End" } th class="num" { "Took" } th { "Began" } }, points.iter().rev().take(50).map(|(cell, lasted)| html! {
                tr {
                    td { a href=(link::run(cell.run_id)) { (cell.run_id) } }
                    td { (words::run(cell.state).markup()) }
                    td class="num" { (took(*lasted)) }
                    td { @if let Some(at) = cell.started_at { (ago(at, now)) } }
                }
            })))
        }
    }
}

/// How long those that succeeded took; none of a few.
fn usual(cells: &[Cell]) -> Option<Usual> {
    let good = cells.iter().filter(|c| c.state == RunState::Succeeded);
    Usual::of(good.filter_map(|c| Some(from_millis(c.duration_ms?))))
}

fn rate(cells: &[Cell]) -> String {
    let count = |states: &[RunState]| cells.iter().filter(|c| states.contains(&c.state)).count();
    let good = count(&[RunState::Succeeded]);
    let bad = count(RunState::FAILURES);
    match success_permille(good, bad) {
        Some(rate) => format!(
            "{}.{} % of the last {} runs succeeded.",
            rate / 10,
            rate % 10,
            good + bad
        ),
        None => "None has ended yet.".to_owned(),
    }
}
