//! Small things that many pages show.

pub mod icons;
pub mod link;
pub mod sentence;
pub mod sort;
pub mod strip;
pub mod time;
pub mod words;

use maud::{Markup, html};

/// A command with a button that copies it.
pub fn cli(command: &str) -> Markup {
    html! { div class="cli" { code { (command) } button type="button" class="small" data-copy { "Copy" } } }
}

/// What stands where there is nothing yet: what would be here, and the command that makes it so.
pub fn empty(what: &str, how: &str, command: &str) -> Markup {
    html! {
        div class="empty" {
            h3 { (what) }
            p { (how) }
            (cli(command))
        }
    }
}

/// How much of something is taken.
pub fn meter(used: i64, all: i64, what: &str) -> Markup {
    let share = (used * 100 / all.max(1)).clamp(0, 100);
    html! {
        svg class="meter pic" role="img" aria-label=(format!("{used} of {all} {what} in use")) {
            rect class="n-idle" width="100%" height="10" rx="3" {}
            rect class="f-run" width=(format!("{share}%")) height="10" rx="3" {}
        }
        " " (used) " of " (all)
    }
}

/// A place or a length in a picture, of its width.
pub fn percent(x: f64) -> String {
    format!("{x:.3}%")
}

/// Beside an empty field.
pub fn none() -> Markup {
    html! { span class="muted" { "–" } }
}

/// Links to the next page and back to the first, of a list with the newest first.
pub fn pager(first: Option<&str>, next: Option<&str>) -> Markup {
    paged(first, next, ["Newest", "Older"])
}

/// The same of a list in the order of names.
pub fn pager_by_name(first: Option<&str>, next: Option<&str>) -> Markup {
    paged(first, next, ["First page", "Next page"])
}

fn paged(first: Option<&str>, next: Option<&str>, words: [&str; 2]) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            div class="pager" {
                @if let Some(href) = first { a class="button" href=(href) { (words[0]) } }
                @if let Some(href) = next { a class="button" href=(href) rel="next" { (words[1]) } }
            }
        }
    }
}
