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

/// A table that scrolls by itself where the page is too narrow for it.
pub fn scroll(class: &str, head: Markup, rows: impl IntoIterator<Item = Markup>) -> Markup {
    html! {
        div class="scroll" { table class=[(!class.is_empty()).then_some(class)] {
            thead { tr { (head) } }
            tbody { @for row in rows { (row) } }
        } }
    }
}

/// What the links are called of a list with the newest first, and of one in the order of names.
pub const BY_TIME: [&str; 2] = ["Newest", "Older"];
pub const BY_NAME: [&str; 2] = ["First page", "Next page"];

/// Links back to the first page and to the next, from the page at `cursor` of a list with this filter.
pub fn pager(
    words: [&str; 2],
    (path, fields): (&str, &[(&str, &str)]),
    cursor: &str,
    next: Option<&str>,
) -> Markup {
    let at = |cursor: &str| link::query(path, &[fields, &[("cursor", cursor)]].concat());
    html! {
        @if !cursor.is_empty() || next.is_some() {
            div class="pager" {
                @if !cursor.is_empty() { a class="button" href=(at("")) { (words[0]) } }
                @if let Some(next) = next { a class="button" href=(at(next)) rel="next" { (words[1]) } }
            }
        }
    }
}
