//! Job files: which of them a command reads, and what they define.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use farmhand_control::definitions::Files;
use farmhand_core::definition::{Definitions, check_prefix, load_with};
use farmhand_core::document::{Mistakes, Source};
use serde_json::json;

use super::{Failure, out};

/// Reads `NAME=VALUE`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write NAME=VALUE".to_owned())
}

fn prefix(text: &str) -> Result<String, String> {
    check_prefix(text).map(|()| text.to_owned())
}

/// What the files are in this environment.
#[derive(Args, Debug)]
pub(super) struct EnvironmentArgs {
    /// The value of a variable, which the files refer to as ${vars.NAME}; wins over [vars]; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Before the names of all jobs, pools and targets that the files define, and wherever they name these: staging-
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true, value_parser = prefix)]
    pub(super) prefix: String,
}

impl EnvironmentArgs {
    /// What these files define.
    pub(super) fn load(&self, sources: &[Source]) -> Result<Definitions, Mistakes> {
        let set: BTreeMap<String, String> = self.set.iter().cloned().collect();
        load_with(sources, &set, &self.prefix)
    }
}

/// The definitions of all files.
pub(super) fn read_files(
    paths: &[PathBuf],
    environment: &EnvironmentArgs,
    as_json: bool,
) -> Result<Files, Failure> {
    let (sources, all) = load(paths, environment, as_json)?;
    Ok(Files::of(&sources, all))
}

/// As [`read_files`], with the text of the files.
pub(super) fn load(
    paths: &[PathBuf],
    environment: &EnvironmentArgs,
    as_json: bool,
) -> Result<(Vec<Source>, Definitions), Failure> {
    let sources = read_all(paths)?;
    let all = environment
        .load(&sources)
        .map_err(|mistakes| refuse(&mistakes, as_json))?;
    Ok((sources, all))
}

/// Shows the mistakes, and counts them.
pub(super) fn refuse(mistakes: &Mistakes, as_json: bool) -> Failure {
    if as_json {
        out::json(&json!({"mistakes": mistakes.located()}));
    } else {
        out::raw_err(out::mistakes(mistakes).as_bytes());
    }
    let what = match mistakes.len() {
        1 => "the job files have a mistake".to_owned(),
        n => format!("the job files have {n} mistakes"),
    };
    Failure::usage(what).next("Nothing was applied; fix these errors")
}

/// A file or directory that cannot be read, and why.
pub(super) type Unreadable = (PathBuf, String);

/// The files of all paths, in the order given, each directory's by name.
pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    read_each(paths).map_err(unreadable)
}

pub(super) fn unreadable(files: Vec<Unreadable>) -> Failure {
    let failure = Failure::usage("not all job files can be read; nothing was applied");
    let why = |failure: Failure, (path, why): Unreadable| failure.why(format!("{}: {why}", path.display()));
    files.into_iter().fold(failure, why)
}

/// As [`read_all`].
pub(super) fn read_each(paths: &[PathBuf]) -> Result<Vec<Source>, Vec<Unreadable>> {
    let mut files = Vec::new();
    let mut unreadable = Vec::new();
    for path in paths {
        match files_of(path) {
            Ok(found) if found.is_empty() => unreadable.push((path.clone(), "no *.toml in it".to_owned())),
            Ok(found) => files.extend(found),
            Err(error) => unreadable.push((path.clone(), error.to_string())),
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
            Err(error) => unreadable.push((file, error.to_string())),
        }
    }
    match unreadable.is_empty() {
        true => Ok(sources),
        false => Err(unreadable),
    }
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
