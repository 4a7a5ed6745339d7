//! Heads of columns by which a table can be sorted: links, so that they work without a script.

use maud::{Markup, html};

use super::link;

/// How a table is sorted now, and its address without that.
pub struct Sort<'a> {
    pub path: &'a str,
    /// The filter, as the address has it.
    pub fields: &'a [(&'a str, &'a str)],
    /// The column that leads; empty for the table's own order.
    pub by: &'a str,
}

/// Which of a column's values is listed first. Each column has the order that is asked for at night, and no other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum First {
    Smallest,
    Largest,
}

/// The head of a column that the table can be sorted by; `how` says in which order, for those who point at it. Without a
/// `Sort` the table cannot be sorted now.
pub fn head(sort: Option<&Sort<'_>>, word: &str, by: &str, first: First, how: &str) -> Markup {
    let Some(sort) = sort else {
        return html! { th { (word) } };
    };
    let href = link::query(sort.path, &[sort.fields, &[("sort", by)]].concat());
    let (aria, arrow) = match first {
        First::Smallest => ("ascending", "↑"),
        First::Largest => ("descending", "↓"),
    };
    let leads = sort.by == by;
    html! {
        th class="sort" aria-sort=[leads.then_some(aria)] {
            a href=(href) title=(how) { (word) @if leads { " " span aria-hidden="true" { (arrow) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_that_leads_says_so_and_each_keeps_the_filter() {
        let sort = Sort {
            path: "/jobs",
            fields: &[("state", "failing"), ("name", "")],
            by: "next",
        };
        let head = |by| head(Some(&sort), "Next", by, First::Smallest, "the soonest first").into_string();
        assert!(
            head("next").contains(r#"aria-sort="ascending""#),
            "{}",
            head("next")
        );
        let other = head("last_end");
        assert!(!other.contains("aria-sort"), "{other}");
        assert!(other.contains("/jobs?state=failing&amp;sort=last_end"), "{other}");
    }
}
