//! A bar per task over the time of the flow.

use farmhand_core::document::from_millis;
use farmhand_store::reading::{FlowTask, FlowView};
use jiff::Timestamp;
use maud::{Markup, html};

use super::sign;
use crate::ui::parts::percent;
use crate::ui::parts::time::took;

/// Bars that are drawn; the table has the rest.
const ROWS: usize = 150;
const ROW: f64 = 22.0;
const AXIS: f64 = 20.0;

pub fn draw(view: &FlowView) -> Markup {
    let mut shown: Vec<(&FlowTask, Timestamp, Timestamp)> = view
        .tasks
        .iter()
        .filter_map(|task| {
            // What an earlier run did has no place in the time of this one.
            let end = &task.end.as_ref().filter(|row| row.attempt > 0)?.end;
            Some((task, end.started_at?, end.ended_at))
        })
        .collect();
    shown.sort_by_key(|(task, from, _)| (*from, task.level, task.task.clone()));
    let left_out = shown.len().saturating_sub(ROWS);
    shown.truncate(ROWS);
    let (Some(first), Some(last)) = (shown.iter().map(|s| s.1).min(), shown.iter().map(|s| s.2).max()) else {
        return html! { p class="empty muted" { "No task has ended yet." } };
    };
    let whole = last.duration_since(first).as_secs_f64().max(0.001);
    let x = |at: Timestamp| at.duration_since(first).as_secs_f64() / whole * 82.0;
    let height = AXIS + shown.len() as f64 * ROW + 6.0;
    html! {
        svg class="pic gantt" height=(format!("{height:.0}")) role="img"
            aria-label=(format!("When {} tasks ran; the table below says the same", shown.len())) {
            @for n in 0..=4 {
                @let at = f64::from(n) * 0.25;
                line class="grid" x1=(percent(at * 82.0)) x2=(percent(at * 82.0)) y1=(AXIS - 4.0) y2=(format!("{height:.0}")) {}
                text class="mute" x=(percent(at * 82.0)) y="12" text-anchor=(if n == 0 { "start" } else { "middle" }) {
                    (took(std::time::Duration::from_secs_f64(whole * at)))
                }
            }
            @for (n, (task, from, to)) in shown.iter().enumerate() {
                @let y = AXIS + n as f64 * ROW + 2.0;
                @let sign = sign(task);
                @let (from, wide) = (x(*from), (x(*to) - x(*from)).max(0.3));
                @let lasted = took(from_millis(task.duration_ms.unwrap_or(0)));
                g {
                    title { (task.task) ", " (sign.word) ", " (lasted) @if task.critical { ", on the critical path" } }
                    rect class=(format!("n-{0} s-{0}", sign.colour.as_str())) x=(percent(from)) width=(percent(wide)) y=(y) height=(ROW - 5.0) rx="3" {}
                    @if task.critical { rect class="critical" x=(percent(from)) width=(percent(wide)) y=(y + ROW - 8.0) height="3" {} }
                    text class="halo" x=(percent(from)) dx="5" y=(y + 12.5) {
                        @if task.critical { "◆ " } (task.task) " · " (lasted)
                        @if !matches!(sign.word, "succeeded") { " · " (sign.word) }
                    }
                }
            }
        }
        div class="legend" aria-hidden="true" { span { "◆ and a thick foot: on the critical path" } }
        @if left_out > 0 { p class="body muted" { (left_out) " more are in the table." } }
    }
}
