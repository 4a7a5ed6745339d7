//! The graphs of `tests/data/graphs` as directories of scripts, and the command.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use farmhand_tests::bin::farmhand;
use serde_json::Value;
use tempfile::TempDir;

pub const RCORDER: [&str; 3] = [
    "rc-freebsd-9-10-installed-2013-11",
    "rc-minix-3.4-2018-11",
    "rc-netbsd-7.99.10-2015-04",
];
pub const LSB: &str = "lsb-debian12-rcS";

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data/graphs")
        .join(name)
}

pub fn read(name: &str) -> String {
    fs::read_to_string(data(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

pub fn write_script(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::write(&path, text).expect("a script can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
}

/// The scripts of a graph with their annotations, all with the same body.
pub fn graph(name: &str, body: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for line in read(&format!("{name}.jsonl")).lines() {
        let script: Value = serde_json::from_str(line).expect("a line of JSON");
        let task = script["name"].as_str().expect("a name");
        let header = if name == LSB {
            lsb(&script)
        } else {
            rcorder(&script)
        };
        write_script(dir.path(), task, &format!("#!/bin/sh\n{header}\n{body}\n"));
    }
    dir
}

fn words(script: &Value, key: &str) -> String {
    let list = script[key].as_array().expect("a list");
    list.iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(" ")
}

fn rcorder(script: &Value) -> String {
    let keys = ["provide", "require", "before", "keyword"];
    let lines = keys.map(|key| (key, words(script, key)));
    let lines = lines.iter().filter(|(_, words)| !words.is_empty());
    lines
        .map(|(key, words)| format!("# {}: {words}\n", key.to_uppercase()))
        .collect()
}

fn lsb(script: &Value) -> String {
    let keys = [
        ("provides", "Provides"),
        ("required_start", "Required-Start"),
        ("required_stop", "Required-Stop"),
        ("should_start", "Should-Start"),
        ("should_stop", "Should-Stop"),
        ("x_start_before", "X-Start-Before"),
        ("x_stop_after", "X-Stop-After"),
        ("default_start", "Default-Start"),
        ("default_stop", "Default-Stop"),
    ];
    let lines = keys.map(|(key, name)| format!("# {name}: {}\n", words(script, key)));
    format!("### BEGIN INIT INFO\n{}### END INIT INFO\n", lines.concat())
}

/// (dependency, dependent) pairs, names themselves left out; and all names.
pub fn edges(name: &str) -> (BTreeSet<(String, String)>, BTreeSet<String>) {
    let mut edges = BTreeSet::new();
    let mut names = BTreeSet::new();
    for line in read(&format!("{name}.edges")).lines() {
        let (from, to) = line.split_once(' ').expect("two names");
        names.extend([from.to_owned(), to.to_owned()]);
        if from != to {
            edges.insert((from.to_owned(), to.to_owned()));
        }
    }
    (edges, names)
}

/// `farmhand flow …`, to its end.
pub fn flow(args: &[&str]) -> Output {
    command(args).output().expect("farmhand runs")
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(farmhand());
    command.arg("flow").args(args).stdin(std::process::Stdio::null());
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().unwrap_or_else(|| panic!("{value} is no list"));
    list.iter()
        .map(|v| v.as_str().expect("a text").to_owned())
        .collect()
}

pub fn path(dir: &TempDir) -> &str {
    dir.path().to_str().expect("a plain path")
}
