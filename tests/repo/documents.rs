use std::path::Path;
use std::process::Command;

/// Every file that git knows, and those that are about to be added.
pub fn files() -> Vec<String> {
    let out = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(super::root())
        .output()
        .expect("git runs: apt-get install git");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// A name of a file in this repository: no blanks, and an ending of ours.
fn names_a_file(word: &str) -> bool {
    let plain = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "./_-".contains(c));
    let ending = Path::new(word).extension().and_then(|e| e.to_str());
    plain && ending.is_some_and(|e| ["rs", "sql", "toml", "sh", "json", "md"].contains(&e))
}

#[test]
fn every_link_of_a_document_leads_to_a_file() {
    let files = files();
    let mut gone = Vec::new();
    for document in files
        .iter()
        .filter(|f| f.ends_with(".md") && !f.starts_with("tests/data/"))
    {
        let text = super::read(document);
        let here = super::root().join(document);
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|t| !t.is_empty() && !t.contains("://")) {
            if !here.with_file_name(target).exists() {
                gone.push(format!("{document}: {target}"));
            }
        }
    }
    assert!(gone.is_empty(), "links that lead nowhere:\n{}", gone.join("\n"));
}

#[test]
fn every_file_that_readme_and_architecture_name_exists() {
    let files = files();
    let mut gone = Vec::new();
    for document in ["README.md", "ARCHITECTURE.md"] {
        for word in quoted(&super::read(document)).filter(|w| names_a_file(w)) {
            let there = files
                .iter()
                .any(|f| f == word || f.ends_with(&format!("/{word}")));
            if !there {
                gone.push(format!("{document}: {word}"));
            }
        }
    }
    assert!(gone.is_empty(), "named and not there:\n{}", gone.join("\n"));
}

#[test]
fn every_source_file_says_one_thing_in_at_most_400_lines() {
    let long: Vec<String> = files()
        .iter()
        .filter(|f| f.ends_with(".rs"))
        .map(|f| (f, super::read(f).lines().count()))
        .filter(|(_, lines)| *lines > 400)
        .map(|(f, lines)| format!("{f}: {lines}"))
        .collect();
    assert!(
        long.is_empty(),
        "which second thing do they say?\n{}",
        long.join("\n")
    );
}
