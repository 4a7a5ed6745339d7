//! What is around every page.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use farmhand_control::MEANWHILE;
use farmhand_core::release;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use super::assets;
use super::parts::icons;
use super::parts::time::clock;
use crate::{App, Caller};

/// The entries of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Now,
    Jobs,
    Runs,
    Nodes,
    Pools,
    Events,
    /// None of them.
    Other,
    /// Before anybody is known: no navigation.
    Login,
}

const ENTRIES: [(Section, &str, &str); 6] = [
    (Section::Now, "/", "Now"),
    (Section::Jobs, "/jobs", "Jobs"),
    (Section::Runs, "/runs", "Runs"),
    (Section::Nodes, "/nodes", "Nodes"),
    (Section::Pools, "/pools", "Pools"),
    (Section::Events, "/events", "Events"),
];

/// A page but for what is around it.
#[derive(Clone, Debug)]
pub struct Made {
    title: String,
    section: Section,
    /// By the database's clock; None while it is not known.
    now: Option<Timestamp>,
    /// Seconds after which it is fetched again though nothing was reported; 0: never.
    tick: u32,
    content: Markup,
}

impl Made {
    pub fn new(
        title: impl Into<String>,
        section: Section,
        now: impl Into<Option<Timestamp>>,
        tick: u32,
        content: Markup,
    ) -> Self {
        Self {
            title: title.into(),
            section,
            now: now.into(),
            tick,
            content,
        }
    }

    /// The whole page, for whoever is signed in.
    pub fn response(&self, app: &App, who: Option<&Caller>, status: StatusCode) -> Response {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    title { (self.title) " · Farmhand" }
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    link rel="icon" type="image/svg+xml" href=(assets::address("icon.svg"));
                    link rel="stylesheet" href=(assets::address("farmhand.css"));
                    script src=(assets::address("farmhand.js")) defer {}
                }
                body data-now=[self.now.map(|n| n.to_string())] data-tick=(self.tick)
                    data-stream=[who.is_some().then_some("/api/v1/stream")] {
                    a class="skip" href="#main" { "Skip to the content" }
                    (icons::sprite())
                    (self.top(who))
                    p id="outage" role="alert" data-agent=(app.address) data-meanwhile=(MEANWHILE) hidden {}
                    main id="main" tabindex="-1" { (self.content) }
                    (self.foot(app, who))
                    dialog id="ask" aria-label="Action" {}
                    (help())
                }
            }
        };
        html(status, page)
    }

    fn top(&self, who: Option<&Caller>) -> Markup {
        html! {
            header class="top" {
                a class="brand" href="/" { (mark()) "Farmhand" }
                @if self.section != Section::Login {
                    nav class="main" aria-label="Pages" {
                        @for (section, href, word) in ENTRIES {
                            a href=(href) aria-current=[(section == self.section).then_some("page")] { (word) }
                        }
                    }
                }
                @if let Some(who) = who {
                    div class="side" {
                        span class="link" role="status" data-state="paused" { "static" }
                        button type="button" class="plain" data-help aria-label="Keys" { kbd { "?" } }
                        form method="post" action="/logout" {
                            button class="small" title=(format!("{}, {}", who.name, who.role)) { "Sign out" }
                        }
                    }
                }
            }
        }
    }

    fn foot(&self, app: &App, who: Option<&Caller>) -> Markup {
        html! {
            footer {
                "Served by " b { (app.address) }
                @if let Some(who) = who { ", to " (who.name) " (" (who.role) ")" }
                ". Times are UTC"
                @if let Some(now) = self.now { ", by the database’s clock, " (clock(now)) }
                ". Farmhand " (release::version()) "."
            }
        }
    }
}

pub fn html(status: StatusCode, page: Markup) -> Response {
    (status, Html(page.into_string())).into_response()
}

fn mark() -> Markup {
    html! {
        svg viewBox="0 0 24 24" aria-hidden="true" {
            rect width="24" height="24" rx="5" fill="#12406f" {}
            path d="M4 7.5h9M4 12h5M12 12h8M4 16.5h4M11 16.5h6" stroke="#fff" stroke-width="2.6" stroke-linecap="round" fill="none" {}
        }
    }
}

fn help() -> Markup {
    const KEYS: [(&str, &str); 10] = [
        ("/", "to the filter"),
        ("j  k", "to the next row, to the one before"),
        ("Enter", "open the row"),
        ("g n", "Now"),
        ("g j", "Jobs"),
        ("g r", "Runs"),
        ("g o", "Nodes"),
        ("g p", "Pools"),
        ("g e", "Events"),
        ("Esc", "close what asks"),
    ];
    html! {
        dialog id="help" aria-labelledby="help-title" {
            div class="inner" {
                h2 id="help-title" { "Keys" }
                dl class="keys" {
                    @for (keys, what) in KEYS {
                        dt { @for key in keys.split_whitespace() { kbd { (key) } " " } }
                        dd { (what) }
                    }
                }
                p class="muted" { "Every page stays current by itself; every filter is in the address, so that a link shows what you see." }
                div class="actions" { button type="button" class="main" data-close autofocus { "Close" } }
            }
        }
    }
}
