//! The annotations of rcorder(8): `# PROVIDE:`, `# REQUIRE:`, `# BEFORE:`, `# KEYWORD:`; and two of our own, `# LOCK:` and
//! `# CONFLICTS:`.

use std::sync::Arc;

use super::task::{Header, Malformed, reference};
use crate::graph::{Place, Reference, Relation};

/// What a misspelt annotation may have been meant to be.
const KEYS: [&str; 6] = ["PROVIDE", "REQUIRE", "BEFORE", "KEYWORD", "LOCK", "CONFLICTS"];

/// What an annotation is about, and its names.
fn annotation(line: &str) -> Option<(&'static str, &str)> {
    let rest = line.strip_prefix('#')?.trim_start();
    let (key, names) = rest.split_once(':')?;
    let key = match key {
        "PROVIDE" | "PROVIDES" => "PROVIDE",
        "REQUIRE" | "REQUIRES" => "REQUIRE",
        "BEFORE" => "BEFORE",
        "KEYWORD" | "KEYWORDS" => "KEYWORD",
        "LOCK" | "LOCKS" => "LOCK",
        "CONFLICT" | "CONFLICTS" => "CONFLICTS",
        _ => return None,
    };
    Some((key, names))
}

/// Whether a line is an annotation.
pub fn is_annotation(line: &str) -> bool {
    annotation(line).is_some()
}

/// The first block of annotations of a text whose first line has number `first`; other comments may stand
/// between them. Those that order nothing count everywhere before the first line of code, too.
pub(super) fn header(file: &Arc<str>, text: &str, first: u32) -> Option<Header> {
    let mut found: Option<Header> = None;
    let (mut code, mut ordered) = (false, false);
    for (line, number) in text.lines().zip(first..) {
        let Some((key, names)) = annotation(line) else {
            let comment = line.starts_with('#');
            if ordered && !comment {
                break;
            }
            code |= !comment && !line.trim().is_empty();
            continue;
        };
        // It says what comes before what, or names something that does.
        ordered |= matches!(key, "PROVIDE" | "REQUIRE" | "BEFORE");
        if code && !ordered {
            continue;
        }
        let at = Place::new(file.clone(), number);
        add(found.get_or_insert_default(), key, names, &at);
    }
    found.map(|mut header| {
        header.stop = header.start.iter().map(reversed).collect();
        header
    })
}

fn add(header: &mut Header, key: &str, names: &str, at: &Place) {
    let names = names.split_whitespace();
    let relation = match key {
        "PROVIDE" => return extend(&mut header.provides, names.map(|n| (n.to_owned(), at.clone()))),
        "KEYWORD" => return extend(&mut header.keywords, names.map(str::to_owned)),
        "LOCK" => return extend(&mut header.locks, names.map(str::to_owned)),
        "REQUIRE" => Relation::Requires,
        "BEFORE" => Relation::Before,
        _ => Relation::Conflicts,
    };
    extend(
        &mut header.start,
        names.map(|n| reference(relation, n, false, at)),
    );
}

/// Lines before the first line of code that look like annotations and are none. The first line has number `first`.
pub(super) fn misspelt(file: &str, text: &str, first: u32) -> Vec<Malformed> {
    let comments = text
        .lines()
        .zip(first..)
        .filter(|(line, _)| !line.trim().is_empty());
    let lines = comments.take_while(|(line, _)| line.starts_with('#'));
    let wrong = |(line, number): (&str, u32)| {
        let (key, _) = line.strip_prefix('#')?.trim_start().split_once(':')?;
        let capitals = !key.is_empty() && key.bytes().all(|b| b.is_ascii_uppercase());
        if !capitals || annotation(line).is_some() {
            return None;
        }
        Malformed::misspelt(file, number, key, &KEYS, "an annotation")
    };
    lines.filter_map(wrong).collect()
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
