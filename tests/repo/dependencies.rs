use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What `cargo metadata` says of this workspace.
pub fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(super::root())
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata prints JSON")
}

fn packages() -> Vec<Value> {
    metadata()["packages"].as_array().expect("packages").clone()
}

fn deny() -> toml::Table {
    super::read("deny.toml").parse().expect("deny.toml parses")
}

fn strings(list: &toml::Value) -> BTreeSet<String> {
    let list = list.as_array().expect("a list");
    list.iter()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect()
}

/// An SPDX expression holds when one of its alternatives has nothing but allowed licences. Parentheses
/// appear only around alternatives that are joined by AND with something else; both sides are then needed.
fn allowed(expression: &str, allow: &BTreeSet<String>) -> bool {
    let expression = expression.trim();
    if let Some((left, right)) = split_outside(expression, " AND ") {
        return allowed(left, allow) && allowed(right, allow);
    }
    for or in [" OR ", "/"] {
        if let Some((left, right)) = split_outside(expression, or) {
            return allowed(left, allow) || allowed(right, allow);
        }
    }
    match expression.strip_prefix('(').and_then(|e| e.strip_suffix(')')) {
        Some(inner) => allowed(inner, allow),
        None => allow.contains(expression),
    }
}

/// The parts around the first `by` that is in no parentheses.
fn split_outside<'a>(text: &'a str, by: &str) -> Option<(&'a str, &'a str)> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && text[at..].starts_with(by) => {
                return Some((&text[..at], &text[at + by.len()..]));
            }
            _ => {}
        }
    }
    None
}

#[test]
fn every_dependency_has_a_licence_that_deny_toml_allows() {
    let allow = strings(&deny()["licenses"]["allow"]);
    let refused: Vec<String> = packages()
        .iter()
        .filter(|p| !p["source"].is_null())
        .filter(|p| !p["license"].as_str().is_some_and(|l| allowed(l, &allow)))
        .map(|p| format!("{} {}: {}", p["name"], p["version"], p["license"]))
        .collect();
    assert!(
        refused.is_empty(),
        "not allowed by deny.toml:\n{}",
        refused.join("\n")
    );
}

#[test]
fn a_licence_expression_needs_every_part_of_an_and_and_one_of_an_or() {
    let allow: BTreeSet<String> = ["MIT", "Unicode-3.0"].map(str::to_owned).into();
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "MIT/Apache-2.0",
        "(MIT OR GPL-3.0) AND Unicode-3.0",
    ] {
        assert!(allowed(good, &allow), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND GPL-3.0", ""] {
        assert!(!allowed(bad, &allow), "{bad}");
    }
}

#[test]
fn every_dependency_comes_from_crates_io() {
    let sources = strings(&deny()["sources"]["allow-registry"]);
    for package in packages() {
        let Some(source) = package["source"].as_str() else {
            continue;
        };
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        assert!(
            sources.contains(registry),
            "{} comes from {source}",
            package["name"]
        );
    }
}

#[test]
fn banned_crates_are_not_in_the_tree() {
    let deny = deny();
    let banned = deny["bans"]["deny"].as_array().expect("bans.deny");
    let banned: BTreeSet<&str> = banned.iter().filter_map(|b| b["name"].as_str()).collect();
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        assert!(!banned.contains(name), "{name} is banned by deny.toml");
    }
}

#[test]
fn every_declared_dependency_is_used() {
    let mut unused = Vec::new();
    for package in packages().iter().filter(|p| p["source"].is_null()) {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a manifest"));
        let sources = sources(manifest.parent().expect("a crate directory"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let name = dependency["rename"]
                .as_str()
                .or(dependency["name"].as_str())
                .expect("a name");
            let ident = name.replace('-', "_");
            let used = sources
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == ident);
            if !used {
                unused.push(format!("{}: {name}", package["name"]));
            }
        }
    }
    assert!(
        unused.is_empty(),
        "declared and never named in the code:\n{}",
        unused.join("\n")
    );
}

#[test]
fn our_own_code_keeps_time_with_jiff_alone() {
    for member in super::crates() {
        let manifest: toml::Table = super::read(&format!("{member}/Cargo.toml"))
            .parse()
            .expect("a manifest");
        let dependencies = manifest["dependencies"].as_table().expect("dependencies");
        assert!(!dependencies.contains_key("chrono"), "{member} declares chrono");
    }
}

/// `println!` and `eprintln!` panic where what they write cannot be written; so does the report of a log line that was lost.
#[test]
fn what_cannot_be_written_ends_no_process_of_ours() {
    for member in super::crates() {
        let text = sources(&super::root().join(&member));
        let words: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '!')
            .filter(|word| ["print!", "println!", "eprint!", "eprintln!"].contains(word))
            .collect();
        assert!(
            words.is_empty(),
            "{member} calls {words:?}: use `writeln!` and ignore what it answers"
        );
        let (logs, quiet) = ("tracing_subscriber::fmt()", ".log_internal_errors(false)");
        assert_eq!(
            text.matches(logs).count(),
            text.matches(quiet).count(),
            "{member}: each {logs} needs {quiet}"
        );
    }
}

/// All Rust sources below a directory in one text.
fn sources(dir: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text += &std::fs::read_to_string(&path).expect("a readable source");
            text.push('\n');
        }
    }
    text
}
