//! `deploy/release` in what needs no build: in this repository, and in one of its own, where it is made to refuse.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::{ok, root};

/// What the script reads, in a program that has released 1.2.2 and is to be 1.2.3.
const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[workspace.package]\nversion = \"1.2.3\"\n\n[workspace.dependencies]\nversion = \"9.9.9\"\n",
    ),
    (
        "CHANGELOG.md",
        "# Changelog\n\n## [Unreleased]\n\n### Fixed\n\n- It was broken.\n\n## [1.2.2] - 2026-01-01\n\n- It is there.\n",
    ),
    (
        "docs/reference/versions.md",
        "| 1.2.3 | not released | 4 | 2 |\n| 1.2.2 | 2026-01-01 | 3 | 2 |\n",
    ),
    (
        "common/store/src/version.rs",
        "    version: 3,\n    version: 4,\n",
    ),
    ("common/store/schema/node.sql", "CREATE TABLE node ();\n"),
    (
        "agent/warden-client/src/wire/mod.rs",
        "pub const PROTOCOL: u32 = 2;\n",
    ),
];

fn git(dir: &Path, arguments: &[&str]) -> String {
    ok(Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=test", "-c", "user.email=test@example.com"])
        .args(["-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"])
        .args(arguments))
}

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--message", "A change"]);
}

/// Whether it succeeded, and what it said.
fn release(dir: &Path, arguments: &[&str]) -> (bool, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(dir.join("deploy/release"))
        .args(arguments)
        .output()
        .expect("the script starts");
    let said = [stdout, stderr].concat();
    (status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Changes a file: what stood there must have been there.
fn edit(dir: &Path, file: &str, from: &str, to: &str) {
    let path = dir.join(file);
    let text = fs::read_to_string(&path).expect(file);
    assert!(text.contains(from), "{file} lacks {from:?}");
    fs::write(path, text.replace(from, to)).expect(file);
}

/// A repository of its own, at the commit after 1.2.2.
fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = |file: &str| {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        path
    };
    for (file, text) in FILES {
        fs::write(place(file), text).expect(file);
    }
    for script in ["deploy/release", "deploy/setup/packages.sh"] {
        fs::copy(root().join(script), place(script)).expect(script);
    }
    git(dir.path(), &["init", "--quiet"]);
    commit(dir.path());
    git(dir.path(), &["tag", "v1.2.2"]);
    dir
}

#[test]
fn nothing_in_this_repository_is_wrong_for_a_release() {
    let (good, said) = release(&root(), &["--dry-run"]);
    assert!(good, "{said}");
}

#[test]
fn a_release_is_prepared_checked_and_tagged() {
    let dir = repository();
    let dir = dir.path();
    let dry = || {
        let (good, said) = release(dir, &["--dry-run"]);
        assert!(good, "{said}");
        said
    };
    let said = dry();
    assert!(
        said.contains("not yet: CHANGELOG.md has no section 1.2.3"),
        "{said}"
    );
    assert!(
        said.contains("1.2.3: schema step 4, warden protocol 2, 3 lines"),
        "{said}"
    );
    let (good, said) = release(dir, &[]);
    assert!(!good && said.contains("not ready to be released: 1 "), "{said}");

    let (good, said) = release(dir, &["--prepare"]);
    assert!(good, "{said}");
    let said = dry();
    assert!(
        said.contains("not yet: the tree is not clean") && !said.contains("git tag"),
        "{said}"
    );
    commit(dir);
    let tag = format!(
        "-m 'Farmhand 1.2.3' v1.2.3 {}",
        git(dir, &["rev-parse", "HEAD"]).trim()
    );
    let said = dry();
    assert!(!said.contains("not yet") && said.contains(&tag), "{said}");

    git(dir, &["tag", "v1.2.3"]);
    let said = dry();
    assert!(!said.contains("not yet"), "the tag's own commit: {said}");
    edit(
        dir,
        "CHANGELOG.md",
        "## [Unreleased]\n",
        "## [Unreleased]\n\n- More.\n",
    );
    commit(dir);
    let said = dry();
    assert!(said.contains("v1.2.3 is the tag of another commit"), "{said}");
    assert!(
        said.contains("what is under Unreleased would be in the release and not in its notes"),
        "{said}"
    );
}

#[test]
fn sources_table_changelog_and_tags_that_disagree_are_wrong() {
    let dir = repository();
    let dir = dir.path();
    let wrong = |what: &str| {
        let (good, said) = release(dir, &["--dry-run"]);
        assert!(!good && said.contains("wrong: ") && said.contains(what), "{said}");
        git(dir, &["checkout", "--quiet", "."]);
    };
    let (good, said) = release(dir, &["--dry-run"]);
    assert!(good, "{said}");
    edit(dir, "agent/warden-client/src/wire/mod.rs", "= 2;", "= 3;");
    wrong("the warden's protocol is '3' in the sources and '2'");
    edit(dir, "common/store/src/version.rs", "version: 4,", "version: 5,");
    wrong("the schema's last step is '5' in the sources and '4'");
    edit(dir, "CHANGELOG.md", "## [1.2.2] - 2026-01-01\n", "");
    wrong("the tag v1.2.2 has no section in CHANGELOG.md");
    edit(
        dir,
        "docs/reference/versions.md",
        "| 1.2.2 | 2026",
        "| 1.2.2 | not 2026",
    );
    wrong("the tag v1.2.2 has no row with its date");
    edit(dir, "common/store/schema/node.sql", "node", "nodes");
    wrong("v1.2.2 is released, and the schema in its files was changed since");
    edit(dir, "Cargo.toml", "1.2.3", "1.2.1");
    wrong("the version in Cargo.toml is 1.2.1, and v1.2.2 is released");
}
