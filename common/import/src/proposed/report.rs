//! What was read, what became of it, and what people are told of the rest.

use std::collections::BTreeMap;

use serde::Serialize;

/// What was known of the machine and a job file must say.
pub struct Machine<'a> {
    /// IANA name of the zone that the other scheduler's clock shows.
    pub timezone: &'a str,
    /// A user's home directory, where known.
    pub home: &'a dyn Fn(&str) -> Option<String>,
}

/// What came of a set of files.
#[derive(Clone, Debug)]
pub struct Import {
    /// The text of the job file; valid whatever the files held.
    pub toml: String,
    /// What was made of the files.
    pub jobs: Vec<Imported>,
    /// What there was in each of them.
    pub files: Vec<Report>,
    /// The text holds what looks like a password.
    pub secret: bool,
    /// Values of variables that look like passwords, for the nodes' store, by the entry's name. The text has none of them.
    pub secrets: BTreeMap<String, String>,
}

/// What became a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The job's name, once among all.
    pub name: String,
    /// The file that it was found in.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// As in the file.
    pub schedule: String,
    /// The zone whose clock the schedule was read by.
    pub timezone: String,
    pub user: Option<String>,
    /// It never fires: others accept such dates, a schedule here does not.
    pub never: bool,
    /// The nodes whose line it is, and where it runs; none when that was not said.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// What was found in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub file: String,
    /// How many jobs came of it.
    pub jobs: usize,
    pub variables: usize,
    pub comments: usize,
    /// Lines that could not be read.
    pub invalid: Vec<Invalid>,
    /// What a job file cannot say, or says differently.
    pub notes: Vec<Note>,
}

/// What could not become a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invalid {
    /// Both from 1, the column in characters.
    pub line: usize,
    /// From 1.
    pub column: usize,
    pub problem: String,
    pub fix: String,
    pub text: String,
}

/// What an import could not take over, or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// 0 for the whole file.
    pub line: usize,
    pub text: String,
}

impl Report {
    pub(crate) fn of(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn note(&mut self, line: usize, text: impl Into<String>) {
        let text = text.into();
        self.notes.push(Note { line, text });
    }

    pub(crate) fn refuse(&mut self, line: usize, text: &str, problem: impl Into<String>, fix: &str) {
        self.invalid.push(Invalid {
            line,
            column: 1,
            problem: problem.into(),
            fix: fix.to_owned(),
            text: text.to_owned(),
        });
    }
}
