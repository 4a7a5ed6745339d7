//! `farmhand job check`: the mistakes of job files, without a database.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use farmhand_core::definition::{Definitions, StoredJob, check_triggers};
use farmhand_core::document::{Located, Mistakes, Source};
use farmhand_core::release;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::job_files::Unreadable;
use super::{Exit, Outcome, job_files, out};

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// Job files; of a directory all *.toml in it and below it; - is standard input
    #[arg(required_unless_present = "table")]
    path: Vec<PathBuf>,
    #[command(flatten)]
    environment: job_files::EnvironmentArgs,
    /// Instead of files: a table of the database (SCHEMA.NAME); a table job for it is proposed, and what it lacks is told.
    /// Exit code 4 if it lacks something
    #[arg(long, value_name = "TABLE", conflicts_with = "path")]
    pub(super) table: Option<String>,
    /// How mistakes are written; json is what --json writes, sarif is SARIF 2.1.0
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Sarif,
}

/// Exit code 0 without mistakes, 2 with them.
pub(super) fn run(args: &CheckArgs, as_json: bool) -> Outcome {
    let format = match args.format {
        Format::Text if as_json => Format::Json,
        format => format,
    };
    let (names, mistakes, jobs) = match (job_files::read_each(&args.path), format) {
        (Ok(sources), _) => {
            let checked = args.environment.load(&sources).and_then(|all| {
                let elsewhere = within(&sources, &all, &args.environment.prefix)?;
                Ok((all, elsewhere))
            });
            if format == Format::Text {
                text(&sources, &checked);
            }
            let names = sources.into_iter().map(|source| source.name).collect();
            match checked {
                Ok((all, _)) => (names, Vec::new(), Some(all.jobs.len())),
                Err(mistakes) => (names, mistakes.located(), None),
            }
        }
        (Err(files), Format::Text) => return Err(job_files::unreadable(files)),
        // The others are not judged without them.
        (Err(files), _) => {
            let names: Vec<String> = files.iter().map(|(path, _)| job_files::name_of(path)).collect();
            (names, files.iter().map(unreadable).collect(), None)
        }
    };
    match format {
        Format::Sarif => out::json(&sarif(&mistakes)),
        Format::Json => out::json(&json!({"files": names, "jobs": jobs, "mistakes": mistakes})),
        Format::Text => {}
    }
    Ok(if mistakes.is_empty() {
        Exit::Ok
    } else {
        Exit::Usage
    })
}

/// A file that cannot be read, as a mistake at its begin.
fn unreadable((path, why): &Unreadable) -> Located {
    Located {
        file: job_files::name_of(path),
        line: 1,
        column: 1,
        end_line: 1,
        end_column: 1,
        what: format!("it cannot be read: {why}"),
        fix: "name files that are there and may be read".to_owned(),
    }
}

/// Circles of triggers. A parent that no file defines may be stored: it is named, and is no mistake.
fn within(sources: &[Source], all: &Definitions, prefix: &str) -> Result<BTreeSet<String>, Mistakes> {
    let defined: BTreeSet<&str> = all.jobs.iter().map(|job| job.name.as_str()).collect();
    let elsewhere: BTreeSet<String> = (all.jobs.iter().flat_map(|job| &job.spec.triggered_by))
        .filter(|parent| !defined.contains(parent.as_str()))
        .cloned()
        .collect();
    let stored = |name: &String| StoredJob {
        name: name.clone(),
        triggered_by: Vec::new(),
        source: String::new(),
    };
    let stored: Vec<StoredJob> = elsewhere.iter().map(stored).collect();
    check_triggers(sources, &all.jobs, prefix, &stored, &[]).map(|()| elsewhere)
}

fn text(sources: &[Source], checked: &Result<(Definitions, BTreeSet<String>), Mistakes>) {
    let files = out::count(sources.len(), "file");
    match checked {
        Ok((all, elsewhere)) => {
            for parent in elsewhere {
                out::note(&format!(
                    "job {parent} is in none of these files: `job apply` looks for it in the database"
                ));
            }
            out::note(&format!(
                "{} in {files}: no mistakes",
                out::count(all.jobs.len(), "job")
            ));
        }
        Err(mistakes) => {
            out::raw(out::mistakes(mistakes).as_bytes());
            out::note(&format!("{} in {files}", out::count(mistakes.len(), "mistake")));
        }
    }
}

/// As code scanners read it.
fn sarif(mistakes: &[Located]) -> Value {
    let result = |mistake: &Located| {
        json!({
            "ruleId": RULE,
            "level": "error",
            "message": {"text": format!("{}; {}", mistake.what, mistake.fix)},
            "locations": [{"physicalLocation": {
                "artifactLocation": {"uri": uri(&mistake.file)},
                "region": {
                    "startLine": mistake.line,
                    "startColumn": mistake.column,
                    "endLine": mistake.end_line,
                    "endColumn": mistake.end_column,
                },
            }}],
        })
    };
    let results: Vec<Value> = mistakes.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "farmhand",
                "version": release::version(),
                "rules": [{
                    "id": RULE,
                    "shortDescription": {"text": "A job file that cannot be applied"},
                }],
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

const RULE: &str = "job-file";

/// A path as a relative or `file:` reference.
fn uri(path: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'/')
        .remove(b'.')
        .remove(b'-')
        .remove(b'_')
        .remove(b'~');
    let path = utf8_percent_encode(path, KEPT);
    match path.to_string() {
        path if path.starts_with('/') => format!("file://{path}"),
        path => path,
    }
}
