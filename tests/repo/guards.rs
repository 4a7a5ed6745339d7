//! The list of guards that are broken on purpose is of the code as it is, and its page is of the list.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::read;

#[derive(Deserialize)]
struct List {
    guard: Vec<Guard>,
}

#[derive(Deserialize)]
struct Guard {
    name: String,
    file: String,
    from: String,
    to: String,
    without: String,
    made_up_by: Option<String>,
}

#[derive(Deserialize)]
struct Found {
    caught_by: Option<String>,
}

#[test]
fn each_guard_stands_once_in_the_shipped_code() {
    let list: List = toml::from_str(&read("tests/guards/guards.toml")).expect("a list of guards");
    for guard in &list.guard {
        let times = read(&guard.file).matches(&guard.from).count();
        assert_eq!(times, 1, "{}: in {}", guard.name, guard.file);
        assert_ne!(guard.from, guard.to, "{}", guard.name);
    }
}

#[test]
fn the_page_of_guards_says_what_was_found_and_nothing_survives() {
    let list: List = toml::from_str(&read("tests/guards/guards.toml")).expect("a list of guards");
    let results: BTreeMap<String, Found> =
        serde_json::from_str(&read("tests/guards/results.json")).expect("what was found");
    let page = read("tests/guards/guards.md");
    for guard in &list.guard {
        let by = match (results.get(&guard.name), &guard.made_up_by) {
            (None, _) => "not tried yet".to_owned(),
            (Some(Found { caught_by: Some(by) }), _) => format!("`{by}`"),
            (Some(_), Some(other)) => format!("nothing: {other} makes up for it"),
            (Some(_), None) => panic!("{}: no test misses it", guard.name),
        };
        let row = format!("| {} | {} | {by} |", guard.name, guard.without);
        assert!(
            page.contains(&row),
            "tests/guards/guards.md lacks {row:?}: `tests/guards/run --page` writes it"
        );
    }
}
