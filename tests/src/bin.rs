//! The real binary, built when it is missing or older than its sources, and the programs that cargo builds with the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Path of `farmhand`. `FARMHAND_BIN` names another one.
///
/// # Panics
/// When it cannot be built, with cargo's own words.
pub fn farmhand() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("FARMHAND_BIN") {
        Some(path) => path.into(),
        None => built(),
    })
}

/// A program of this crate.
///
/// # Panics
/// When it is not there.
pub(crate) fn beside(name: &str) -> PathBuf {
    let program = profile().join(name);
    assert!(
        program.exists(),
        "{} is missing: cargo builds it with the tests",
        program.display()
    );
    program
}

/// target/PROFILE, of target/PROFILE/deps/TEST or target/PROFILE/BENCH.
fn profile() -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its own path");
    let mut above = own.ancestors().skip(1).filter(|dir| !dir.ends_with("deps"));
    above.next().expect("a test lies in a directory").to_path_buf()
}

fn built() -> PathBuf {
    let profile = profile();
    let binary = profile.join("farmhand");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let made = binary.metadata().and_then(|m| m.modified()).ok();
    let newest = ["agent", "common", "Cargo.lock"].map(|part| newest(&root.join(part)));
    if made.is_some_and(|made| newest.iter().all(|source| *source <= made)) {
        return binary;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(&root)
        // The whole workspace, as the tests are built: another choice of packages resolves other features and compiles all of them again.
        .args(["build", "--quiet", "--locked", "--workspace", "--bin", "farmhand"]);
    cargo
        .arg("--target-dir")
        .arg(profile.parent().expect("a profile lies in the target directory"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    // What a test runner says about the test's crate: build scripts look at it, and would run again, with all that depends on them.
    for (name, _) in std::env::vars_os() {
        let of_a_crate = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if of_a_crate
            .iter()
            .any(|part| name.to_string_lossy().starts_with(part))
        {
            cargo.env_remove(name);
        }
    }
    let output = cargo
        .output()
        .expect("cargo runs; or set FARMHAND_BIN to a farmhand binary");
    assert!(
        output.status.success(),
        "farmhand does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Cargo leaves it as it was when nothing in it has changed.
    let file = std::fs::File::open(&binary).expect("what was built");
    file.set_modified(SystemTime::now()).expect("its time");
    binary
}

fn newest(path: &Path) -> SystemTime {
    let own = path
        .metadata()
        .and_then(|m| m.modified())
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|e| newest(&e.path())).fold(own, SystemTime::max)
}
