//! The comment block of LSB init scripts, with insserv's extensions.

use std::sync::Arc;

use super::facilities::Facilities;
use super::task::{Header, Malformed, reference};
use crate::graph::{Place, Relation};

const BEGIN: &str = "### BEGIN INIT INFO";
const END: &str = "### END INIT INFO";

/// The standard's keys, and insserv's.
const KEYS: [&str; 12] = [
    "Provides",
    "Required-Start",
    "Required-Stop",
    "Should-Start",
    "Should-Stop",
    "Default-Start",
    "Default-Stop",
    "Short-Description",
    "Description",
    "X-Start-Before",
    "X-Stop-After",
    "X-Interactive",
];

/// Nothing when there is no block.
pub(super) fn header(
    file: &Arc<str>,
    text: &str,
    facilities: &Facilities,
) -> Result<Option<Header>, Malformed> {
    let mut lines = text.lines().zip(1..);
    let Some((_, begin)) = lines.find(|(line, _)| line.trim_end() == BEGIN) else {
        return Ok(None);
    };
    let mut header = Header::default();
    for (line, number) in lines {
        if line.trim_end() == END {
            return Ok(Some(header));
        }
        let at = Place::new(file.clone(), number);
        // The block is nothing but comments.
        let Some(comment) = line.strip_prefix('#') else {
            break;
        };
        if let Some((key, value)) = comment.split_once(':') {
            add(&mut header, key.trim(), value, &at, facilities);
        }
    }
    Err(Malformed {
        at: Place::new(file.clone(), begin),
        what: format!("`{BEGIN}` has no `{END}`"),
        fix: format!("put `{END}` on a line of its own after the last comment line of the block"),
    })
}

fn add(header: &mut Header, key: &str, value: &str, at: &Place, facilities: &Facilities) {
    let words = || value.split_whitespace();
    let named = |relation, optional| {
        let one = move |name| facilities.expand(name, optional);
        let expanded = words().flat_map(one).collect::<Vec<_>>();
        let references = expanded.into_iter();
        references.map(move |(name, optional)| reference(relation, &name, optional, at))
    };
    match key.to_ascii_lowercase().as_str() {
        "provides" => header
            .provides
            .extend(words().map(|n| (n.to_owned(), at.clone()))),
        "required-start" => header.start.extend(named(Relation::Requires, false)),
        "should-start" => header.start.extend(named(Relation::After, true)),
        "x-start-before" => header.start.extend(named(Relation::Before, true)),
        // What is needed for stopping is still there while this stops.
        "required-stop" => header.stop.extend(named(Relation::Before, false)),
        "should-stop" => header.stop.extend(named(Relation::Before, true)),
        "x-stop-after" => header.stop.extend(named(Relation::After, true)),
        "default-start" => header.start_levels = Some(words().map(str::to_owned).collect()),
        "default-stop" => header.stop_levels = Some(words().map(str::to_owned).collect()),
        _ => {}
    }
}

/// Lines of the block that look like one of its keys and are none. What is indented goes on with a description.
pub(super) fn misspelt(file: &str, text: &str) -> Vec<Malformed> {
    let lines = text.lines().zip(1..);
    let block = lines.skip_while(|(line, _)| line.trim_end() != BEGIN);
    let block = block.take_while(|(line, _)| line.starts_with('#') && line.trim_end() != END);
    let wrong = |(line, number): (&str, u32)| {
        let (key, _) = line.strip_prefix('#')?.split_once(':')?;
        let key = key.strip_prefix(' ').unwrap_or(key);
        if key.starts_with(char::is_whitespace) || KEYS.iter().any(|k| k.eq_ignore_ascii_case(key)) {
            return None;
        }
        Malformed::misspelt(file, number, key, &KEYS, "a key of an LSB header")
    };
    block.filter_map(wrong).collect()
}
