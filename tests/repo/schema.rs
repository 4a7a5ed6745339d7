//! No SQL lies about that nothing executes.

use std::path::Path;

use crate::{read, root};

#[test]
fn every_statement_has_its_function_and_every_schema_file_its_place() {
    let mut sources = String::new();
    collect(&root().join("common/store/src"), "rs", &mut sources);
    for statement in names("common/store/src/sql") {
        assert!(
            sources.contains(&format!("\"{statement}\""))
                || sources.contains(&format!("sql/{statement}.sql")),
            "nothing executes {statement}.sql"
        );
    }
    let version = read("common/store/src/version.rs");
    for topic in names("common/store/schema") {
        assert!(
            version.contains(&format!("schema/{topic}.sql")),
            "{topic}.sql is in no version of the schema"
        );
    }
}

#[test]
fn runs_are_made_and_ended_in_one_place() {
    let mut sql = String::new();
    collect(&root().join("common/store"), "sql", &mut sql);
    for once in [
        "INSERT INTO farmhand.run_live ",
        "DELETE FROM farmhand.run_live ",
        "INSERT INTO farmhand.run_history ",
        "INSERT INTO farmhand.attempt ",
    ] {
        assert_eq!(sql.matches(once).count(), 1, "{once}");
    }
}

fn names(folder: &str) -> Vec<String> {
    let found: Vec<String> = std::fs::read_dir(root().join(folder))
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".sql").map(str::to_owned)
        })
        .collect();
    assert!(found.len() > 10, "{folder}: {found:?}");
    found
}

fn collect(folder: &Path, extension: &str, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, extension, into);
        } else if path.extension().is_some_and(|e| e == extension) {
            into.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}
