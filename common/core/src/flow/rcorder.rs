//! The annotations of rcorder(8): `# PROVIDE:`, `# REQUIRE:`, `# BEFORE:`, `# KEYWORD:`.

use std::sync::Arc;

use super::{Header, reference};
use crate::graph::{Place, Reference, Relation};

/// One annotation line.
enum Line<'t> {
    Provide(&'t str),
    Require(&'t str),
    Before(&'t str),
    Keyword(&'t str),
}

fn annotation(line: &str) -> Option<Line<'_>> {
    let rest = line.strip_prefix('#')?.trim_start();
    let (key, names) = rest.split_once(':')?;
    Some(match key {
        "PROVIDE" | "PROVIDES" => Line::Provide(names),
        "REQUIRE" | "REQUIRES" => Line::Require(names),
        "BEFORE" => Line::Before(names),
        "KEYWORD" | "KEYWORDS" => Line::Keyword(names),
        _ => return None,
    })
}

/// The first block of annotations of a text whose first line has number `first`; other comments may stand
/// between them.
pub(super) fn header(file: &Arc<str>, text: &str, first: u32) -> Option<Header> {
    let mut found: Option<Header> = None;
    for (line, number) in text.lines().zip(first..) {
        let Some(annotation) = annotation(line) else {
            if found.is_some() && !line.starts_with('#') {
                break;
            }
            continue;
        };
        let at = Place {
            file: file.clone(),
            line: number,
        };
        add(found.get_or_insert_default(), &annotation, &at);
    }
    found.map(|mut header| {
        header.stop = header.start.iter().map(reversed).collect();
        header
    })
}

fn add(header: &mut Header, line: &Line<'_>, at: &Place) {
    let (relation, names) = match line {
        Line::Require(names) => (Relation::Requires, names),
        Line::Before(names) => (Relation::Before, names),
        Line::Provide(names) => {
            let names = names.split_whitespace().map(|n| (n.to_owned(), at.clone()));
            return extend(&mut header.provides, names);
        }
        Line::Keyword(names) => {
            let names = names.split_whitespace().map(str::to_owned);
            return extend(&mut header.keywords, names);
        }
    };
    let references = names
        .split_whitespace()
        .map(|n| reference(relation, n, false, at));
    extend(&mut header.start, references);
}

/// Without room for more: there may be thousands of such lists, and most have one item.
fn extend<T>(list: &mut Vec<T>, items: impl Iterator<Item = T> + Clone) {
    list.reserve_exact(items.clone().count());
    list.extend(items);
}

/// Down is up, backwards; and what fails to stop keeps nothing else from stopping.
fn reversed(up: &Reference) -> Reference {
    let relation = match up.relation {
        Relation::Requires | Relation::After => Relation::Before,
        Relation::Before => Relation::After,
        Relation::Conflicts => Relation::Conflicts,
    };
    Reference {
        relation,
        ..up.clone()
    }
}
