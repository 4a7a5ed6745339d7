//! Which files a command that takes job files reads.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use farmhand_core::document::Source;

use super::Failure;

/// Reads `NAME=VALUE`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write NAME=VALUE".to_owned())
}

/// What the files' variables are here.
#[derive(Args, Debug)]
pub(super) struct SetArgs {
    /// The value of a variable, which the files refer to as ${vars.NAME}; wins over [vars]; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

impl SetArgs {
    pub(crate) fn vars(&self) -> BTreeMap<String, String> {
        self.set.iter().cloned().collect()
    }
}

/// The files of all paths, in the order given, each directory's by name.
pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    let mut files = Vec::new();
    let mut unreadable = Vec::new();
    for path in paths {
        match files_of(path) {
            Ok(found) if found.is_empty() => unreadable.push(format!("{}: no *.toml in it", path.display())),
            Ok(found) => files.extend(found),
            Err(error) => unreadable.push(format!("{}: {error}", path.display())),
        }
    }
    let mut seen = BTreeSet::new();
    files.retain(|file| seen.insert(file.clone()));
    let mut sources = Vec::new();
    for file in files {
        match read(&file) {
            Ok(text) => sources.push(Source {
                name: name_of(&file),
                text,
            }),
            Err(error) => unreadable.push(format!("{}: {error}", file.display())),
        }
    }
    if unreadable.is_empty() {
        return Ok(sources);
    }
    let failure = Failure::usage("not all job files can be read; nothing was applied");
    Err(unreadable.into_iter().fold(failure, Failure::why))
}

fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."))
}

/// A path as sources are named by it: the same for `./jobs/`, `jobs` and `a/../jobs`.
pub(super) fn name_of(path: &Path) -> String {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components() {
        match (part, parts.last()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    if parts.is_empty() {
        // Every directory is `.` to somebody.
        return here().display().to_string();
    }
    parts.iter().collect::<PathBuf>().display().to_string()
}

fn files_of(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if path == Path::new("-") || !path.metadata()?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let within = if path == Path::new(".") {
        here()
    } else {
        path.to_owned()
    };
    walk(&within, &mut files)?;
    files.sort();
    Ok(files)
}

/// The job files in a directory and in those below it.
fn walk(within: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in within.read_dir()? {
        let entry = entry?;
        let file = entry.path();
        // Hidden: editors' copies, and the directories that a ConfigMap's files are links into.
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        // A link to a directory is none here, so that every walk ends.
        if entry.file_type()?.is_dir() {
            walk(&file, files)?;
        } else if file.extension().is_some_and(|e| e == "toml") && !file.is_dir() {
            files.push(file);
        }
    }
    Ok(())
}

fn read(file: &Path) -> std::io::Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}
