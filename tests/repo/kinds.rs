//! Kinds of events: one list, of which each is written by somebody, and from which the document is made.

use std::collections::BTreeSet;
use std::path::Path;

use farmhand_store::event::EventKind;

use super::{crates, read, root};

/// Texts of files below `dir` that `pick` wants.
fn texts(dir: &Path, pick: &dyn Fn(&str) -> bool, found: &mut Vec<String>) {
    for entry in dir.read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts(&path, pick, found);
        } else if pick(&path.to_string_lossy()) {
            found.push(std::fs::read_to_string(&path).expect("a text"));
        }
    }
}

fn all(pick: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for dir in crates() {
        texts(&root().join(dir), pick, &mut found);
    }
    found
}

/// What stands in single quotes, and is not compared with something.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    let parts: Vec<&str> = text.split('\'').collect();
    let quoted = parts.chunks_exact(2).filter(|pair| !pair[0].ends_with("= "));
    quoted
        .map(|pair| pair[1].to_owned())
        .collect::<Vec<_>>()
        .into_iter()
}

/// The kinds that statements and the schema write.
fn of_sql() -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for text in all(&|name| name.ends_with(".sql")) {
        let inserts: Vec<&str> = text.split("INSERT INTO farmhand.event (").skip(1).collect();
        for insert in &inserts {
            // The kind comes before the severity.
            let end = ["'debug'", "'info'", "'warning'", "'error'"];
            let end = end.iter().filter_map(|word| insert.find(word)).min();
            kinds.extend(quoted(&insert[..end.unwrap_or(0)]));
        }
        if !inserts.is_empty() {
            let named = text.match_indices("' AS kind").map(|(end, _)| &text[..end]);
            kinds.extend(
                named
                    .filter_map(|head| head.rsplit('\'').next())
                    .map(str::to_owned),
            );
        }
    }
    kinds
}

/// The table of events, from one heading to the next.
fn section(name: &str) -> String {
    let table = read("common/store/src/event.rs");
    let (_, rows) = table.split_once(&format!("\n    {name} {{\n")).expect(name);
    rows.split_once("\n    }\n").expect("an end").0.to_owned()
}

/// The name and the word of each row, and the sentence before it.
fn rows(section: &str) -> Vec<(String, String, String)> {
    let mut rows = Vec::new();
    let mut sentence = "";
    for line in section.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            sentence = text.trim().trim_end_matches('.');
            continue;
        }
        if !sentence.is_empty() && !line.starts_with("//") {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let word = words.next().unwrap_or_default().trim_matches('"');
            rows.push((name.to_owned(), word.to_owned(), sentence.to_owned()));
            sentence = "";
        }
    }
    rows
}

#[test]
fn what_statements_write_stands_in_the_table_of_events_and_is_written() {
    let control = all(&|name| name.contains("/control/src/")).concat();
    let mut written = of_sql();
    assert!(written.len() >= 20, "{written:?}");
    for kind in EventKind::ALL {
        if control.contains(&format!("EventKind::{kind:?}")) {
            written.insert(kind.to_string());
        }
    }
    let listed = |kind: &String| EventKind::ALL.iter().any(|listed| listed.as_str() == kind);
    let unlisted: Vec<_> = written.iter().filter(|kind| !listed(kind)).collect();
    let mut unwritten = rows(&section("by_statement"));
    unwritten.retain(|(_, word, _)| !written.contains(word));
    assert!(
        unlisted.is_empty() && unwritten.is_empty(),
        "common/store/src/event.rs does not list {unlisted:?}; nothing writes {unwritten:?}"
    );
}

#[test]
fn every_event_of_the_table_is_made_somewhere() {
    let code = all(&|name| name.ends_with(".rs") && !name.ends_with("/events/tests.rs")).concat();
    let made = |name: &str| {
        ["Event::", "Self::"].iter().any(|of| {
            let longer = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '`');
            code.split(&format!("{of}{name}"))
                .skip(1)
                .any(|rest| !longer(rest))
        })
    };
    for part in ["recorded", "logged", "counted"] {
        for (name, ..) in rows(&section(part)) {
            assert!(made(&name), "nothing makes {name}");
        }
    }
}

const NOT_RECORDED: &str = "
## What is not recorded

While the database is away an agent keeps its events, 10,000 of them, and writes them down when it is back. `at` is the time when an event was written
down. An event may be there twice, when the database's answer was lost. What is lost:

- what happens while 10,000 events wait. The agent's log says once that it begins, and `farmhand_db_errors_total{op=\"record_events\",class=\"queue_full\"}` counts it;
- what still waits when the agent ends: it tries three times before it leaves;
- an event that the database refuses as it is: the log says which.

The agent's log has every event.
";

#[test]
fn the_document_of_events_has_every_kind_with_its_sentence() {
    let mut page = "# Kinds of events\n\nThis page is written from the program: `FARMHAND_BLESS=1 cargo nextest run -p farmhand-tests \
        --test repo kinds`.\n\n`farmhand events --kind` and `/api/v1/events?kind=` take these words, and the column `kind` of \
        [`farmhand.event`](schema.md#to-read) has them. A later\nrelease may add kinds.\n\n| kind | what happened |\n| --- | --- |\n"
        .to_owned();
    for (_, word, sentence) in ["recorded", "by_statement"]
        .iter()
        .flat_map(|part| rows(&section(part)))
    {
        page.push_str(&format!("| `{word}` | {sentence} |\n"));
    }
    assert_eq!(page.matches("\n| `").count(), EventKind::ALL.len());
    page.push_str(NOT_RECORDED);
    let file = root().join("docs/reference/events.md");
    if std::env::var_os("FARMHAND_BLESS").is_some() {
        std::fs::write(&file, &page).expect("docs/reference/events.md");
    }
    assert!(
        std::fs::read_to_string(&file).is_ok_and(|now| now == page),
        "docs/reference/events.md is not what common/store/src/event.rs says: run this test once with FARMHAND_BLESS=1"
    );
}
