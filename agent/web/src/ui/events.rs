//! What happened: takeovers, fences, skips, and who did what.

use farmhand_control::past_moment;
use farmhand_store::event::{About, EventKind};
use farmhand_store::events::Recorded;
use farmhand_store::reading::{self, EventsFilter, Paging};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::Made;
use super::fields::{choice, run_number};
use super::layout::Section;
use super::parts::time::{ago, clock};
use super::parts::{BY_TIME, empty, link, pager, scroll, words};
use crate::{App, Caller, Problem, Query};

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ask {
    about: String,
    job: String,
    node: String,
    run: String,
    kind: String,
    since: String,
    until: String,
    cursor: String,
}

/// What the choice offers: its value, its words, which events it means if not all.
const ABOUT: [(&str, &str, Option<About>); 7] = [
    ("", "everything", None),
    ("takeovers", "takeovers", Some(About::Takeovers)),
    ("fences", "fences", Some(About::Fences)),
    ("skips", "skips", Some(About::Skips)),
    ("failures", "failures", Some(About::Failures)),
    ("audit", "who did what", Some(About::Audit)),
    ("nodes", "sessions", Some(About::Nodes)),
];

pub async fn made(app: App, _: Caller, Query(ask): Query<Ask>) -> Result<Made, Problem> {
    let db = app.reading.db();
    let now = reading::now(db).await?;
    let chosen = |text: &str| Some(text.trim().to_owned()).filter(|t| !t.is_empty());
    let (.., about) = *choice("about", &ask.about, &ABOUT, |(word, ..)| word)?;
    let kinds: Vec<EventKind> = match chosen(&ask.kind) {
        Some(word) => vec![word.parse().map_err(Problem::bad_request)?],
        None => about.map_or_else(Vec::new, About::kinds),
    };
    let run = chosen(&ask.run).map(|text| run_number(&text)).transpose()?;
    let time = |name, text: &str| {
        chosen(text)
            .map(|text| past_moment(name, &text, now, &TimeZone::UTC))
            .transpose()
    };
    let filter = EventsFilter {
        job: chosen(&ask.job),
        node: chosen(&ask.node),
        run,
        kinds: kinds.iter().map(ToString::to_string).collect(),
        since: time("since", &ask.since)?,
        until: time("until", &ask.until)?,
        ..EventsFilter::default()
    };
    let paging = Paging {
        cursor: chosen(&ask.cursor),
        limit: Some(100),
    };
    let page = reading::events(db, &filter, &paging).await?;
    let fields = [
        ("about", ask.about.as_str()),
        ("job", &ask.job),
        ("node", &ask.node),
        ("run", &ask.run),
        ("kind", &ask.kind),
        ("since", &ask.since),
        ("until", &ask.until),
    ];
    let content = html! {
        div class="head" { h1 class="grow" { "Events" } }
        section class="card" {
            header { (filter_form(&ask)) }
            div id="events" data-live {
                (sentences(&page.items, now))
                (pager(BY_TIME, ("/events", &fields), &ask.cursor, page.next.as_deref()))
            }
        }
    };
    Ok(Made::new("Events", Section::Events, now, 0, content))
}

fn filter_form(ask: &Ask) -> Markup {
    html! {
        form class="filter" method="get" action="/events" {
            label { "About"
                select name="about" { @for (value, word, _) in ABOUT { option value=(value) selected[value == ask.about] { (word) } } }
            }
            label { "Job" input name="job" value=(ask.job) size="16" data-filter; }
            label { "Node" input name="node" value=(ask.node) size="9"; }
            label { "Run" input name="run" value=(ask.run) size="7" inputmode="numeric"; }
            label { "Since" input name="since" value=(ask.since) size="14" placeholder="8h, or a UTC time"; }
            label { "Until" input name="until" value=(ask.until) size="14"; }
            @if !ask.kind.is_empty() { label { "Kind" input name="kind" value=(ask.kind) size="14"; } }
            button { "Filter" }
        }
    }
}

/// Events as rows; also for other pages.
pub fn sentences(events: &[Recorded], now: Timestamp) -> Markup {
    if events.is_empty() {
        return empty(
            "No event here",
            "Takeovers, fences, skips and what people did are recorded; what went well is in the runs.",
            "farmhand events",
        );
    }
    scroll("stack", html! { th { "When" } th { "What" } th { "About" } th { "Node" } th { "Said" } }, events.iter().map(|event| html! {
        @let what = &event.event;
        tr id=(format!("event-{}", event.event_id)) data-row {
            td class="nowrap" title=(clock(event.at)) { (ago(event.at, now)) }
            td class="nowrap" { (words::event(what.severity, &what.kind)) }
            td {
                @if let Some(run) = what.run_id {
                    a href=(link::run(run)) { "run " (run) }
                    @if let Some(attempt) = what.attempt { " #" (attempt) }
                    " "
                }
                @if let Some(job) = &what.job_id { a href=(link::job(job)) { (job) } }
                @if let Some(fence) = what.fence { " " small class="fence" { "fence " (fence) } }
            }
            td class="nowrap" { @if let Some(node) = &what.address { a href=(link::node(node)) { (node) } } }
            td { (said(&what.detail)) }
        }
    }))
}

/// The detail as words: `outcome failed, delay 5000 ms`.
fn said(detail: &Value) -> Markup {
    let pairs: Vec<(String, String)> = (detail.as_object().into_iter().flatten())
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.replace('_', " "), text(value)))
        .collect();
    html! {
        @for (n, (name, value)) in pairs.iter().enumerate() {
            @if n > 0 { ", " }
            small { (name) } " " (value)
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_told_without_its_empty_parts() {
        let told = said(&serde_json::json!({"held_by": "n1", "cause": null, "freed": 2})).into_string();
        assert_eq!(told, "<small>freed</small> 2, <small>held by</small> n1");
    }

    #[test]
    fn every_choice_but_everything_means_some_kinds() {
        let of = |about: &Option<About>| about.map_or_else(Vec::new, About::kinds);
        assert!(ABOUT.iter().skip(1).all(|(.., about)| !of(about).is_empty()));
    }
}
