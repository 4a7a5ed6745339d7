use std::collections::{BTreeMap, BTreeSet};
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

/// The documents of this repository.
pub fn documents() -> Vec<String> {
    let ours = |file: &String| file.ends_with(".md") && !file.starts_with("tests/data/");
    files().into_iter().filter(ours).collect()
}

/// The lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// What stands between the brackets of `[text](target)` is kept, the target goes.
fn without_targets(heading: &str) -> String {
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once(')').map_or("", |(_, rest)| rest)
    })
}

/// The anchors of a document's headings, as GitHub and most renderers make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::new();
    let headings = prose(text).filter_map(|line| {
        line.trim_start_matches('#')
            .strip_prefix(' ')
            .filter(|_| line.starts_with('#'))
    });
    let mut anchors = BTreeSet::new();
    for heading in headings {
        let plain = without_targets(heading.trim()).to_lowercase();
        let kept = plain
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = seen.entry(anchor.clone()).or_insert(0);
        anchors.insert(if *before == 0 {
            anchor
        } else {
            format!("{anchor}-{before}")
        });
        *before += 1;
    }
    anchors
}

/// The links of a document within this repository: file (empty for the same one) and anchor.
fn links(text: &str) -> Vec<(&str, Option<&str>)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .map(|target| {
            target
                .split_once('#')
                .map_or((target, None), |(file, anchor)| (file, Some(anchor)))
        })
        .collect()
}

#[test]
fn every_link_of_a_document_leads_to_a_file_and_every_anchor_to_a_heading() {
    let mut gone = Vec::new();
    for document in documents() {
        let text = super::read(&document);
        let here = super::root().join(&document);
        for (file, anchor) in links(&text) {
            let target = if file.is_empty() {
                here.clone()
            } else {
                here.with_file_name(file)
            };
            if !target.exists() {
                gone.push(format!("{document}: {file} is not there"));
            } else if let Some(anchor) = anchor.filter(|_| target.extension().is_some_and(|e| e == "md")) {
                let there = anchors(&std::fs::read_to_string(&target).unwrap_or_default());
                if !there.contains(anchor) {
                    gone.push(format!("{document}: {file} has no heading for #{anchor}"));
                }
            }
        }
    }
    assert!(gone.is_empty(), "links that lead nowhere:\n{}", gone.join("\n"));
}

#[test]
fn the_summary_of_the_site_lists_each_page_of_the_documentation_once() {
    let summary = super::read("docs/SUMMARY.md");
    let mut listed: Vec<String> = links(&summary)
        .iter()
        .map(|(file, _)| format!("docs/{file}"))
        .collect();
    listed.sort();
    let is_page = |file: &String| file.starts_with("docs/") && file != "docs/SUMMARY.md";
    let mut pages: Vec<String> = documents().into_iter().filter(is_page).collect();
    pages.sort();
    pages.dedup();
    assert_eq!(
        listed, pages,
        "add the page to docs/SUMMARY.md, where its reader looks"
    );
}

#[test]
fn anchors_are_made_from_headings_and_not_from_comments_in_code() {
    let text = "# A `b`, [c](d.md)!\n```\n# no heading\n```\n## Twice\n## Twice\n#hashtag\n";
    let expected = ["a-b-c", "twice", "twice-1"].map(str::to_owned);
    assert_eq!(anchors(text), expected.into());
    assert_eq!(
        links("[a](b.md#c) [d](#e) [f](https://g#h)"),
        [("b.md", Some("c")), ("", Some("e"))]
    );
}

#[test]
fn every_file_that_the_documents_about_the_code_name_exists() {
    let files = files();
    let mut gone = Vec::new();
    let about_code = |d: &&String| {
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&d.as_str())
            || d.starts_with("docs/internals/")
    };
    for document in documents().iter().filter(about_code) {
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
fn every_test_that_a_documented_command_chooses_exists() {
    let sources: Vec<String> = files()
        .iter()
        .filter(|f| f.ends_with(".rs"))
        .map(|f| super::read(f))
        .collect();
    let exists = |name: &str| {
        let mut functions = sources.iter().flat_map(|s| s.split("fn ").skip(1));
        // A module's name, or a part of a function's.
        name.ends_with("::") || functions.any(|f| f.split('(').next().is_some_and(|f| f.contains(name)))
    };
    let (mut seen, mut gone) = (0, Vec::new());
    for document in documents() {
        let text = super::read(&document);
        for rest in text.split("test(").skip(1) {
            let name = rest.split(')').next().unwrap_or_default().trim_start_matches('=');
            let chosen = name
                .rsplit_once("::")
                .map_or(name, |(_, last)| if last.is_empty() { name } else { last });
            seen += 1;
            if !exists(chosen) {
                gone.push(format!("{document}: test({name})"));
            }
        }
    }
    assert!(seen > 3, "{seen} commands name tests");
    assert!(gone.is_empty(), "named and not there:\n{}", gone.join("\n"));
}

/// Names that documents and code write often. Who replaces text carelessly cuts them, or glues something to them.
const NAMES: [&str; 7] = [
    "Debian",
    "Farmhand",
    "Kubernetes",
    "Patroni",
    "PgBouncer",
    "PostgreSQL",
    "Prometheus",
];

/// Words of a line that a search and replace broke: a name of which the beginning or the end is missing, a name with a digit
/// glued to it and, in prose, any word with a fraction glued to it.
fn broken_words(line: &str, prose: bool) -> Vec<String> {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    let mut broken = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(is_letter) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_letter(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let cut = NAMES.iter().any(|name| {
            word.len() >= 5 && word.len() < name.len() && (name.starts_with(word) || name.ends_with(word))
        });
        let digits = after.chars().take_while(char::is_ascii_digit).count();
        let fraction = after[digits..]
            .strip_prefix('.')
            .is_some_and(|f| f.starts_with(|c: char| c.is_ascii_digit()));
        let glued =
            digits > 0 && (word == "SQL" || NAMES.contains(&word) || prose && fraction && word.len() >= 3);
        if cut || glued {
            broken.push(format!("{word}{}", &after[..digits]));
        }
        rest = after;
    }
    broken
}

#[test]
fn no_text_has_words_that_a_search_and_replace_broke() {
    let mut broken = Vec::new();
    for file in files().iter().filter(|f| !f.starts_with("tests/data/")) {
        // An image, or a link to something that is not there.
        let Ok(text) = std::fs::read_to_string(super::root().join(file)) else {
            continue;
        };
        for (nth, line) in text.lines().enumerate() {
            for word in broken_words(line, file.ends_with(".md")) {
                broken.push(format!("{file}:{}: {word}", nth + 1));
            }
        }
    }
    assert!(
        broken.is_empty(),
        "write these words anew:\n{}",
        broken.join("\n")
    );
}

#[test]
fn words_that_a_search_and_replace_broke_are_found() {
    // Without the tildes, which keep these words out of what the test above finds.
    let broken = |text: &str, prose| broken_words(&text.replace('~', ""), prose);
    for text in [
        "as Post~greS0.8, 1.0, 1.4 MB does",
        "a Farm~han job",
        "the gre~SQL server",
        "Post~gre~SQ~L15",
        "in SQ~L15",
    ] {
        assert_eq!(broken(text, false).len(), 1, "{text}");
    }
    let glued = "a lease0.5 s long";
    assert_eq!((broken(glued, true).len(), broken(glued, false).len()), (1, 0));
    for text in ["PostgreSQL 15.2, postgres, v1.2", "farmhand-agent, run2, sha256"] {
        assert_eq!(broken(text, true), [""; 0], "{text}");
    }
}

#[test]
fn a_source_file_of_more_than_800_lines_says_why_at_its_top() {
    let long: Vec<String> = files()
        .iter()
        .filter(|f| f.ends_with(".rs"))
        .map(|f| (f, super::read(f)))
        .filter(|(_, text)| text.lines().count() > 800)
        .filter(|(_, text)| {
            let top = text.lines().take_while(|l| l.starts_with("//!"));
            !top.collect::<String>().contains("One file because")
        })
        .map(|(f, text)| format!("{f}: {}", text.lines().count()))
        .collect();
    assert!(
        long.is_empty(),
        "begin with `//! One file because …`, or split by what each part owns:\n{}",
        long.join("\n")
    );
}

/// Types whose methods stand in more files than four, with how many. Only shrinks.
const SCATTERED: [(&str, &str, usize); 0] = [];

/// The type of an inherent `impl` that begins on this line.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generic) => generic.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    let head = rest.strip_suffix('{')?;
    (!head.contains(" for ")).then(|| head.split(['<', ' ']).next())?
}

#[test]
fn the_methods_of_a_type_stand_in_at_most_four_files() {
    let mut files_of: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for file in files().iter().filter(|f| f.ends_with(".rs")) {
        let Some(krate) = super::crates()
            .into_iter()
            .find(|c| file.starts_with(&format!("{c}/")))
        else {
            continue;
        };
        for name in super::read(file).lines().filter_map(implemented) {
            let key = (krate.clone(), name.to_owned());
            files_of.entry(key).or_default().insert(file.clone());
        }
    }
    let scattered: Vec<(&str, &str, usize)> = files_of
        .iter()
        .filter(|(_, files)| files.len() > 4)
        .map(|((krate, name), files)| (krate.as_str(), name.as_str(), files.len()))
        .collect();
    assert_eq!(
        scattered, SCATTERED,
        "a type in more than four files was cut by length"
    );
}
