//! Kinds of events: whoever offers one to choose from names one that is written.

use std::path::Path;

use super::{crates, read, root};

/// Every text in quotes of the statements, the schema and the code that record events.
fn written() -> String {
    let mut all = String::new();
    for dir in crates() {
        collect(&root().join(dir), &mut all);
    }
    all
}

fn collect(dir: &Path, all: &mut String) {
    for entry in dir.read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            collect(&path, all);
        } else if name.ends_with(".sql")
            || name.ends_with("events/record.rs")
            || name.contains("/control/src/")
        {
            let text = std::fs::read_to_string(&path).expect("a text");
            if !name.ends_with(".sql") || text.contains("INSERT INTO farmhand.event") {
                all.push_str(&text);
            }
        }
    }
}

#[test]
fn every_kind_of_event_that_the_page_offers_is_one_that_is_written() {
    let page = read("agent/web/src/ui/events.rs");
    let start = page.find("const ABOUT").expect("the choices");
    let choices = &page[start..start + page[start..].find("];").expect("their end")];
    let written = written();
    let mut seen = 0;
    let mut faults = Vec::new();
    // The last list of a choice holds the kinds; its value and its words come before.
    for list in choices.split("&[").skip(2) {
        let list = &list[..list.find(']').expect("the list's end")];
        for kind in list.split('"').skip(1).step_by(2) {
            seen += 1;
            let as_text = |quote: char| written.contains(&format!("{quote}{kind}{quote}"));
            if !as_text('"') && !as_text('\'') {
                faults.push(kind.to_owned());
            }
        }
    }
    assert!(seen > 40, "{seen}");
    assert!(faults.is_empty(), "nothing writes {faults:?}");
    assert!(
        choices.contains("\"run_submitted\""),
        "who ran what is who did what"
    );
}
