//! The walls between the crates: what may depend on what is written down in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// What each crate that is shipped depends on, of this workspace's crates.
fn arrows() -> Arrows {
    let metadata = super::dependencies::metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let ours = |name: &str| name == "farmhand" || name.starts_with("farmhand-");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let names = dependencies.iter().map(|d| text(&d["name"]));
            (text(&package["name"]), names.filter(|name| ours(name)).collect())
        })
        .filter(|(name, _): &(String, _)| {
            ours(name) && !["farmhand-bench", "farmhand-model", "farmhand-tests"].contains(&name.as_str())
        })
        .collect()
}

/// The table under "Crates": a crate, and what it may depend on.
fn allowed() -> Arrows {
    let text = super::read("ARCHITECTURE.md");
    let (_, section) = text.split_once("\n## Crates\n").expect("a section Crates");
    let section = section.split("\n## ").next().unwrap_or(section);
    let named =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    section
        .lines()
        .filter_map(|line| {
            let mut cells = line.split('|').skip(1);
            let name = named(cells.next()?).pop()?;
            Some((name, named(cells.next()?).into_iter().collect()))
        })
        .collect()
}

#[test]
fn a_crate_depends_on_what_architecture_says_and_on_nothing_else() {
    let (found, allowed) = (arrows(), allowed());
    assert!(found.len() > 8, "{found:?}");
    let names = |arrows: &Arrows| arrows.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&found), names(&allowed), "the table names every crate");
    let mut wrong = Vec::new();
    for (name, dependencies) in &found {
        for dependency in dependencies.difference(&allowed[name]) {
            wrong.push(format!("{name} may not depend on {dependency}"));
        }
        for dependency in allowed[name].difference(dependencies) {
            wrong.push(format!(
                "the table lets {name} depend on {dependency}: it does not"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All packages that a crate is built with, of whatever kind, but for what a feature adds that others switch on.
fn below(name: &str) -> BTreeSet<String> {
    let metadata = super::dependencies::metadata();
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let name_of: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .filter_map(|p| Some((p["id"].as_str()?, p["name"].as_str()?)))
        .collect();
    let mut found = BTreeSet::new();
    let start = name_of.iter().find(|(_, known)| **known == name);
    let mut open: Vec<&str> = start.map(|(id, _)| *id).into_iter().collect();
    while let Some(id) = open.pop() {
        if !found.insert(name_of[id].to_owned()) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == id).expect("a node");
        let is_built_in = |d: &&serde_json::Value| {
            let kinds = d["dep_kinds"].as_array().expect("kinds");
            kinds.iter().any(|kind| kind["kind"].is_null())
        };
        let dependencies = node["deps"].as_array().expect("dependencies");
        let switched = optional(&metadata, name_of[id]);
        open.extend(
            dependencies
                .iter()
                .filter(is_built_in)
                .filter_map(|d| d["pkg"].as_str())
                .filter(|id| !switched.contains(&name_of[id])),
        );
    }
    found
}

/// The optional dependencies of a crate of this workspace.
fn optional<'a>(metadata: &'a serde_json::Value, name: &str) -> Vec<&'a str> {
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages
        .iter()
        .find(|p| p["name"] == name && p["source"].is_null());
    let dependencies = package.and_then(|p| p["dependencies"].as_array());
    (dependencies.into_iter().flatten())
        .filter(|d| d["optional"] == true)
        .filter_map(|d| d["name"].as_str())
        .collect()
}

#[test]
fn only_what_the_database_holds_describes_types_of_core() {
    let metadata = super::dependencies::metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let asks = |p: &&serde_json::Value| {
        let dependencies = p["dependencies"].as_array().expect("dependencies");
        (dependencies.iter())
            .any(|d| d["name"] == "farmhand-core" && d["features"] == serde_json::json!(["schema"]))
    };
    let asking: Vec<_> = packages.iter().filter(asks).map(|p| &p["name"]).collect();
    assert_eq!(asking, ["farmhand-store"]);
}

#[test]
fn decisions_and_wardens_cannot_see_the_database() {
    let walls: [(&str, &[&str]); 5] = [
        (
            "farmhand-core",
            &["tokio", "tokio-postgres", "utoipa", "axum", "hyper"],
        ),
        ("farmhand-warden", &["tokio-postgres", "utoipa", "hyper"]),
        ("farmhand-warden-client", &["tokio-postgres", "utoipa", "hyper"]),
        ("farmhand-engine", &["tokio-postgres", "utoipa", "hyper"]),
        ("farmhand-node", &["farmhand-web", "axum", "utoipa-axum"]),
    ];
    for (name, hidden) in walls {
        let found = below(name);
        assert!(found.len() > 5, "{name}: {found:?}");
        for package in hidden {
            assert!(!found.contains(*package), "{name} sees {package}");
        }
    }
}
