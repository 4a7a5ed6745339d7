//! The last days of a job: a cell per day, success rates, how long its successes took.

use std::collections::BTreeMap;

use farmhand_core::document::from_millis;
use farmhand_core::run::RunState;
use farmhand_store::StoreError;
use farmhand_store::reading::{Durations, JobDay, JobDays};
use jiff::civil::Date;
use maud::{Markup, html};

use crate::ui::parts::icons::Icon;
use crate::ui::parts::time::took;
use crate::ui::parts::words::{self, Colour, Sign};
use crate::ui::parts::{link, none, percent, scroll};

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const HEIGHT: f64 = 56.0;

/// All of it; nothing ended on these days: a sentence.
pub fn days(days: &JobDays) -> Markup {
    if days.days.iter().all(|day| day.all() == 0) {
        return html! { p class="empty muted" { "No run has ended in the last " (days.days.len()) " days." } };
    }
    html! {
        div class="body" {
            p class="facts" {
                @for rate in &days.rates {
                    @if let Some(permille) = rate.permille {
                        span { (rate.days) " days: " b { (permille / 10) "." (permille % 10) " %" } " of " (rate.succeeded + rate.failed) " succeeded" }
                    }
                }
            }
            @if let Some(from) = days.counted_from {
                p { "It runs so often that only its newest 30,000 runs are counted here: those since " (from.strftime("%Y-%m-%d %H:%M UTC")) "." }
            }
        }
        (grid(days))
        (durations(days))
        (table(days))
    }
}

/// Why they are not shown.
pub fn unread(error: &StoreError) -> Markup {
    tracing::warn!("the days of a job: {error}");
    let slow = error.is_too_slow() || matches!(error, StoreError::TimedOut { .. });
    html! {
        p class="callout warn" role="status" {
            @if slow { "These days could not be read in time." } @else { "These days could not be read; the agent’s log says why." }
            " The rest of this page is complete."
        }
    }
}

/// A row per day of the week, a column per week.
fn grid(days: &JobDays) -> Markup {
    let mut weeks: BTreeMap<Date, [Option<&JobDay>; 7]> = BTreeMap::new();
    for day in &days.days {
        let weekday = weekday(day.day);
        let monday = day.day.saturating_sub(jiff::Span::new().days(i64::from(weekday)));
        weeks.entry(monday).or_default()[usize::from(weekday)] = Some(day);
    }
    let today = days.days.last().map(|day| day.day);
    html! {
        p class="legend" {
            "A cell per day, with the worst end of that day and how many ended so."
            @for sign in signs(&days.days) { " " (sign.markup()) }
        }
        div class="scroll newest" tabindex="0" role="region" aria-label="Its runs day by day" {
            table class="runs-grid days" {
                thead { tr { td {} @for monday in weeks.keys() { th scope="col" { (monday.strftime("%d %b")) } } } }
                tbody {
                    @for (n, name) in WEEKDAYS.iter().enumerate() {
                        tr {
                            th scope="row" { (name) }
                            @for week in weeks.values() { td { @if let Some(day) = week[n] { (cell(days, day, Some(day.day) == today)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn weekday(day: Date) -> u8 {
    day.weekday().to_monday_zero_offset().unsigned_abs()
}

fn cell(days: &JobDays, day: &JobDay, today: bool) -> Markup {
    let Some((sign, n)) = sign(day) else {
        return html! { span class="day" aria-hidden="true" { "·" } };
    };
    let said = said(day);
    html! {
        a href=(runs(days, day)) class=(format!("day t-{} b-{}", sign.colour, sign.colour)) title=(said) aria-label=(said)
            aria-current=[today.then_some("date")] {
            (sign.icon.markup()) @if day.all() > 1 { (short(n)) }
        }
    }
}

/// The worst that happened on a day, and how often. A day of successes that began late is late.
fn sign(day: &JobDay) -> Option<(Sign, i64)> {
    let worst = day.worst?;
    if day.late > 0 && matches!(worst, RunState::Succeeded | RunState::Skipped) {
        return Some((LATE, day.late));
    }
    Some((words::run(worst), day.ended(worst)))
}

const LATE: Sign = Sign {
    colour: Colour::Warn,
    icon: Icon::Wait,
    word: "late",
};

/// Those that the grid shows, each once.
fn signs(days: &[JobDay]) -> Vec<Sign> {
    let mut signs: Vec<Sign> = Vec::new();
    for (sign, _) in days.iter().filter_map(sign) {
        if !signs.contains(&sign) {
            signs.push(sign);
        }
    }
    signs.sort_by_key(|sign| sign.word);
    signs
}

fn runs(days: &JobDays, day: &JobDay) -> String {
    let next = day.day.saturating_add(jiff::Span::new().days(1));
    let zone = Some(days.timezone.as_str()).filter(|zone| *zone != "UTC");
    link::query(
        "/runs",
        &[
            ("job", &days.job_id),
            ("since", &day.day.to_string()),
            ("until", &next.to_string()),
            ("zone", zone.unwrap_or_default()),
        ],
    )
}

fn said(day: &JobDay) -> String {
    let counts = [
        (day.succeeded, "succeeded"),
        (day.failed, "failed"),
        (day.timed_out, "timed out"),
        (day.lost, "lost"),
        (day.cancelled, "cancelled"),
        (day.skipped, "skipped"),
        (day.late, "late"),
    ];
    let counts: Vec<String> = (counts.iter().filter(|(n, _)| *n > 0))
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    format!("{}: {}", day.day.strftime("%a %Y-%m-%d"), counts.join(", "))
}

/// `17`, `1.4k`.
fn short(n: i64) -> String {
    match n {
        ..=999 => n.to_string(),
        1_000..=9_999 => format!("{}.{}k", n / 1_000, n % 1_000 / 100),
        10_000..=999_999 => format!("{}k", n / 1_000),
        _ => format!("{}M", n / 1_000_000),
    }
}

/// A bar per day up to the median, a line to the p95, a mark where the longest is an outlier.
fn durations(days: &JobDays) -> Markup {
    let Some(all) = days.durations else {
        return html! {};
    };
    // One day that took far longer must not flatten the others: its bar ends at the edge.
    let most = all.p95_ms as f64 * 1.5;
    let step = 100.0 / days.days.len() as f64;
    let tall = |ms: i64| ((ms as f64 / most.max(1.0)).min(1.0) * (HEIGHT - 14.0)).max(1.5);
    let outliers = days.days.iter().filter(|day| day.outlier).count();
    html! {
        div class="body" {
            h3 { "Durations: median " (lasted(all.p50_ms)) ", p95 " (lasted(all.p95_ms)) ", longest " (lasted(all.longest_ms)) }
            p class="muted" {
                "Of " (all.count) " successes. A bar per day up to its median, a line to its p95."
                @if outliers > 0 { " " (Icon::Alert.markup()) " marks " (outliers) (if outliers == 1 { " day" } else { " days" }) " with an outlier: more than twice the p95 of all days." }
            }
            svg class="spark days pic" role="img" aria-label="Durations by day; the table below says the same" {
                @for (n, day) in days.days.iter().enumerate() {
                    @if let Some(d) = day.durations { (bar(day, d, [n as f64 * step, step], &tall)) }
                }
            }
        }
    }
}

fn bar(day: &JobDay, d: Durations, [x, step]: [f64; 2], tall: &dyn Fn(i64) -> f64) -> Markup {
    let middle = percent(x + step / 2.0);
    html! {
        g {
            title { (day.day) ": median " (lasted(d.p50_ms)) ", p95 " (lasted(d.p95_ms)) ", longest " (lasted(d.longest_ms)) }
            rect class="f-ok" x=(percent(x + step * 0.1)) width=(percent(step * 0.8))
                y=(format!("{:.1}", HEIGHT - tall(d.p50_ms))) height=(format!("{:.1}", tall(d.p50_ms))) {}
            line class="p95" x1=(middle) x2=(middle) y1=(format!("{:.1}", HEIGHT - tall(d.p95_ms))) y2=(HEIGHT) {}
            @if day.outlier {
                svg class="i t-warn" x=(middle) y="0" width="11" height="11" viewBox="0 0 16 16" { use href=(Icon::Alert.href()) {} }
            }
        }
    }
}

fn table(days: &JobDays) -> Markup {
    html! {
        details class="behind" id="days-table" {
            summary { "Days as a table" }
            (scroll("", html! {
                th { "Day" } th class="num" { "Succeeded" } th class="num" { "Failed" } th class="num" { "Cancelled" } th class="num" { "Skipped" }
                th class="num" { "Late" } th class="num" { "Median" } th class="num" { "p95" } th class="num" { "Longest" }
            }, days.days.iter().rev().filter(|day| day.all() > 0).map(|day| html! {
                tr {
                    td class="nowrap" { a href=(runs(days, day)) { (day.day.strftime("%a %Y-%m-%d")) } }
                    @for n in [day.succeeded, day.bad(), day.cancelled, day.skipped, day.late] { td class="num" { (n) } }
                    @match day.durations {
                        Some(d) => {
                            td class="num" { (lasted(d.p50_ms)) } td class="num" { (lasted(d.p95_ms)) }
                            td class="num" { @if day.outlier { span class="tag" { "outlier" } " " } (lasted(d.longest_ms)) }
                        },
                        None => { td class="num" { (none()) } td class="num" { (none()) } td class="num" { (none()) } },
                    }
                }
            })))
        }
    }
}

fn lasted(ms: i64) -> String {
    took(from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_a_cell_is_short() {
        let shorts = [7, 999, 1_440, 43_200, 2_500_000].map(short);
        assert_eq!(shorts, ["7", "999", "1.4k", "43k", "2M"]);
    }
}
