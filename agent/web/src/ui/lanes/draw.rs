//! Places to SVG. Widths are percent, so that one drawing fits every screen without a script.

use farmhand_store::reading::BarEnd;
use jiff::Timestamp;
use maud::{Markup, html};

use super::arrange::{AXIS, BAND, BAR};
use super::{AttemptFact, Band, Bar, Gap, Lane, Mark, Picture, Shade};
use crate::ui::parts::icons::Icon;
use crate::ui::parts::link;
use crate::ui::parts::percent;
use crate::ui::parts::time::{ran, took};
use crate::ui::parts::words::{self, Colour, Sign};

/// The picture with its legend.
pub fn draw(picture: &Picture, now: Timestamp) -> Markup {
    let height = format!("{:.0}", picture.height);
    html! {
        div class="lanes" {
            div class="gutter" {
                svg class="pic" height=(height) role="group" aria-label="Nodes" {
                    @for lane in &picture.lanes { (gutter(lane)) }
                }
            }
            div class="plot" {
                svg class="pic" height=(height) role="group"
                    aria-label=(format!("Attempts over time on {} lanes; the table below says the same", picture.lanes.len())) {
                    (definitions())
                    @for tick in &picture.ticks {
                        g class=[tick.minor.then_some("wide")] {
                            line class="grid" x1=(percent(tick.x)) x2=(percent(tick.x)) y1=(AXIS - 4.0) y2=(height) {}
                            text class="mute" x=(percent(tick.x)) y=(AXIS - 8.0) text-anchor="middle" { (tick.text) }
                        }
                    }
                    @for lane in &picture.lanes { (drawn(lane, now)) }
                    line class="now" x1=(percent(picture.now)) x2=(percent(picture.now)) y1=(AXIS - 4.0) y2=(height) {}
                    @for arrow in &picture.arrows {
                        g {
                            title {
                                (format!("Run {}: attempt {} on {} took over from {}, fence {}", arrow.run_id,
                                    arrow.attempt, arrow.to_node, arrow.from_node, arrow.fence))
                            }
                            line class="arrow" x1=(percent(arrow.from.0)) y1=(arrow.from.1)
                                x2=(percent(arrow.to.0)) y2=(arrow.from.1) {}
                            line class="arrow" x1=(percent(arrow.to.0)) y1=(arrow.from.1)
                                x2=(percent(arrow.to.0)) y2=(arrow.to.1) marker-end="url(#head)" {}
                            (arrow_words(arrow))
                        }
                    }
                }
            }
        }
        (legend())
    }
}

/// Beside the arrow, on the side where there is room.
fn arrow_words(arrow: &super::Arrow) -> Markup {
    let (anchor, dx) = if arrow.to.0 > 62.0 {
        ("end", "-6")
    } else {
        ("start", "6")
    };
    let y = (arrow.from.1 + arrow.to.1) / 2.0 + 4.0;
    html! {
        text class="arrowtext" x=(percent(arrow.to.0)) dx=(dx) y=(format!("{y:.1}")) text-anchor=(anchor)
            data-takeover=(arrow.run_id) {
            tspan class="wide" { "takeover · " } "fence " (arrow.fence)
        }
    }
}

fn definitions() -> Markup {
    html! {
        defs {
            pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                line class="hatchline" x1="0" y1="0" x2="0" y2="7" {}
            }
            pattern id="silent" width="9" height="9" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)" {
                line class="silentline" x1="0" y1="0" x2="0" y2="9" stroke-opacity=".35" {}
            }
            marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9"
                markerUnits="userSpaceOnUse" orient="auto" {
                path class="arrowhead" d="M0 0L8 4L0 8z" {}
            }
        }
    }
}

fn gutter(lane: &Lane) -> Markup {
    let sign = words::node(&lane.state);
    html! {
        line class="rule" x1="0" x2="100%" y1=(lane.top) y2=(lane.top) {}
        @if let Some(node) = &lane.node {
            a href=(link::node(&node.address))
                aria-label=(format!("Node {}, {}", node.address, sign.word)) {
                text class="strong" x="12" y=(lane.top + 17.0) { (lane.title) }
            }
            (icon(sign, 12.0, lane.top + 23.0, 12.0))
            text class="mute" x="28" y=(lane.top + 33.0) { (sign.word) }
            @if node.slots > 0 {
                text class="mute wide" x="84" y=(lane.top + 33.0) { (node.running) "/" (node.slots) " slots" }
            }
        } @else {
            text class="strong" x="12" y=(lane.top + 17.0) { (lane.title) }
            text class="mute" x="12" y=(lane.top + 33.0) { "folded" }
        }
    }
}

fn drawn(lane: &Lane, now: Timestamp) -> Markup {
    html! {
        line class="rule" x1="0" x2="100%" y1=(lane.top) y2=(lane.top) {}
        @for gap in &lane.gaps { (shaded(lane, gap)) }
        @for band in &lane.bands { (histogram(band)) }
        @for bar in &lane.bars { (attempt(bar, now)) }
        @for mark in &lane.marks { (zombie(lane, mark)) }
    }
}

fn shaded(lane: &Lane, gap: &Gap) -> Markup {
    let (node, lasted) = (&lane.title, took(gap.lasted));
    let title = match gap.shade {
        Shade::Silent => format!("{node} has been silent for {lasted}"),
        Shade::Expired => format!("{node} was silent for {lasted}, then its session was expired"),
        Shade::Away => format!("the database did not answer {node} for {lasted}"),
    };
    let word = match gap.shade {
        Shade::Silent | Shade::Expired => "silent",
        Shade::Away => "no database",
    };
    let height = lane.height - 2.0;
    html! {
        svg x=(percent(gap.x)) y=(lane.top + 1.0) width=(percent(gap.width)) height=(height) {
            title { (title) }
            rect class="gap" width="100%" height=(height) {}
            rect width="100%" height=(height) fill="url(#silent)" {}
            text class="strong" x="4" y=(height - 4.0) { (word) " " (lasted) }
        }
    }
}

fn histogram(band: &Band) -> Markup {
    let name = band.job_id.as_deref().unwrap_or("short runs");
    let said = match band.bad {
        0 => format!("{name} × {}", band.total),
        bad => format!("{name} × {}, {bad} unsuccessful", band.total),
    };
    html! {
        g {
            title { (said) }
            @for cell in &band.cells {
                @let tall = (cell.level * BAND).max(3.0);
                @let bad = if cell.bad == 0 { 0.0 } else { (tall * cell.bad as f64 / (cell.good + cell.bad) as f64).max(3.0) };
                rect class="f-ok" x=(percent(cell.x)) width=(percent(cell.width * 0.86)) y=(two(band.y + BAND - tall))
                    height=(two(tall)) fill-opacity=".45" {}
                @if bad > 0.0 {
                    rect class="f-bad" x=(percent(cell.x)) width=(percent(cell.width * 0.86)) y=(two(band.y + BAND - bad))
                        height=(two(bad)) {}
                    text class="t-bad" x=(percent(cell.x + cell.width * 0.43)) y=(two(band.y + BAND - bad - 1.0)) text-anchor="middle" { "×" }
                }
            }
            text class="strong halo" x="4" y=(band.y + 13.0) { (said) }
        }
    }
}

/// What an attempt's end is called in the picture and its table.
pub(super) fn sign(fact: &AttemptFact) -> Sign {
    words::named(fact.end.as_str())
}

fn attempt(bar: &Bar, now: Timestamp) -> Markup {
    let fact = &bar.fact;
    let sign = sign(fact);
    let colour = sign.colour.as_str();
    let lasted = took(ran(fact.ran_ms, fact.from, fact.to.unwrap_or(now)));
    let why =
        (fact.reason.as_deref().filter(|_| bar.hatched)).map_or_else(String::new, |why| format!(" ({why})"));
    let title = format!(
        "{} run {} attempt {} on {}: {}{why}, {lasted}, fence {}",
        fact.job_id, fact.run_id, fact.attempt, fact.address, sign.word, fact.fence
    );
    html! {
        a href=(link::run(fact.run_id)) aria-label=(title)
            tabindex=[(!bar.hatched && !bar.heir && fact.end != BarEnd::Running).then_some("-1")]
            data-attempt=(format!("{}/{}", fact.run_id, fact.attempt)) data-state=(sign.word) {
            svg x=(percent(bar.x)) y=(bar.y) width=(percent(bar.width)) height=(BAR) {
                title { (title) }
                rect class=(format!("n-{colour}")) width="100%" height=(BAR) rx="3" {}
                @if bar.hatched { rect width="100%" height=(BAR) fill="url(#hatch)" fill-opacity=".55" {} }
                rect class=(format!("none s-{colour}")) x="0.5" y="0.5" width="100%" height=(BAR - 1.0) rx="3"
                    stroke-dasharray=[(fact.end == BarEnd::Running).then_some("5 3")] {}
                rect class=(format!("f-{colour}")) width="4" height=(BAR) {}
                (icon(sign, 8.0, 4.0, 12.0))
                text class="halo" x="24" y="14" {
                    (fact.job_id)
                    @if fact.attempt > 1 { " #" (fact.attempt) }
                    @if bar.hatched { " · lost" }
                }
            }
        }
    }
}

fn zombie(lane: &Lane, mark: &Mark) -> Markup {
    let title = format!(
        "{} on {}: run {} attempt {}",
        mark.word, lane.title, mark.run_id, mark.attempt
    );
    let (anchor, dx) = if mark.x > 80.0 {
        ("end", "-10")
    } else {
        ("start", "10")
    };
    let y = lane.top + lane.height - 5.0;
    html! {
        g {
            title { (title) }
            line class="s-lost" x1=(percent(mark.x)) x2=(percent(mark.x)) y1=(lane.top + 2.0) y2=(lane.top + lane.height) stroke-dasharray="2 2" {}
            svg x=(percent(mark.x)) y=(y - 11.0) width="24" height="14" overflow="visible" {
                use class="glyph t-lost" href=(Icon::Fence.href()) x="-6" width="12" height="12" {}
            }
            text class="arrowtext" x=(percent(mark.x)) dx=(dx) y=(y) text-anchor=(anchor) { (mark.word) " #" (mark.attempt) }
        }
    }
}

fn icon(sign: Sign, x: f64, y: f64, size: f64) -> Markup {
    html! {
        use class=(format!("glyph t-{}", sign.colour.as_str())) href=(sign.icon.href()) x=(x) y=(y) width=(size) height=(size) {}
    }
}

fn legend() -> Markup {
    let entry = |colour: Colour, icon: Icon, word: &str| {
        html! { span { span class=(format!("t-{}", colour.as_str())) { (icon.markup()) } (word) } }
    };
    html! {
        div class="legend" aria-hidden="true" {
            (entry(Colour::Run, Icon::Play, "running (dashed edge)"))
            (entry(Colour::Ok, Icon::Check, "succeeded"))
            (entry(Colour::Bad, Icon::Cross, "failed"))
            (entry(Colour::Lost, Icon::Lost, "lost with its session, lease or warden (hatched)"))
            (entry(Colour::Warn, Icon::Alert, "silence until the lease was over, or no database (shaded)"))
            (entry(Colour::Lost, Icon::Arrow, "takeover, with its fence"))
            (entry(Colour::Lost, Icon::Fence, "stale holder fenced"))
        }
    }
}

fn two(y: f64) -> String {
    format!("{y:.2}")
}
