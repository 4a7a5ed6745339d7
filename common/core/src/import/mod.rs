//! What the importers of other schedulers' files share: what they tell, names, and the writer of job files. Jobs proposed for
//! tables.

mod draft;
mod name;
mod proposal;
mod secrets;
mod write;

use std::collections::BTreeMap;

use serde::Serialize;

pub(crate) use draft::Draft;
pub(crate) use name::Names;
pub use proposal::{Column, Proposal};
pub(crate) use secrets::{
    MOST, Store, argv_without_variables, hide_variable, secret_note, stored, without_variables,
};
pub use write::is_unedited;
pub(crate) use write::{Piece, text_or_list};

/// The grace of what is never killed, or later than a job file can say.
pub(crate) const LONG: &str = "365d";

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// Whether a variable looks like a password, by its name or by a password in a web address. What a secret is called, or where it
/// lies, is none.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    const PLACES: [&str; 4] = ["NAME", "FILE", "PATH", "DIR"];
    const WORDS: [&str; 8] = [
        "PASS",
        "PWD",
        "SECRET",
        "TOKEN",
        "APIKEY",
        "API_KEY",
        "ACCESS_KEY",
        "CREDENTIAL",
    ];
    let name = name.to_ascii_uppercase();
    let user = value
        .split_once("://")
        .and_then(|(_, rest)| rest.split(['/', '?']).next()?.rsplit_once('@'));
    let in_address =
        user.is_some_and(|(user, _)| user.split_once(':').is_some_and(|(_, word)| !word.is_empty()));
    !value.is_empty()
        && !is_path(value)
        && (in_address
            || WORDS.iter().any(|word| name.contains(word)) && !PLACES.iter().any(|end| name.ends_with(end)))
}

/// A path, and no key in base64, which may begin with a slash as well.
fn is_path(value: &str) -> bool {
    let has = |of: fn(&u8) -> bool| value.as_bytes().iter().any(of);
    let is_key = value.len() >= 32
        && (value.bytes()).all(|b| b.is_ascii_alphanumeric() || b"/+=".contains(&b))
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit);
    value.starts_with('/') && !is_key
}

/// Whether a command holds what looks like a password: of a variable before a program, of an option, in a web address.
pub(crate) fn has_secret(command: &str) -> bool {
    const QUOTES: [char; 2] = ['"', '\''];
    let words = command.split(|c: char| c.is_whitespace() || "`;|&()".contains(c));
    let mut words = words.map(|word| word.trim_matches(QUOTES));
    words.any(|word| {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if is_variable(&name.trim_start_matches('-').replace('-', "_")) => {
                (name, value)
            }
            _ => ("", word),
        };
        let value = value.trim_start_matches(QUOTES);
        // A shell puts it there.
        !value.contains('$') && is_secret(name, value)
    })
}

/// What to say of such a command.
pub(crate) const SECRET_COMMAND: &str = "its command holds what looks like a password: that stands in the job file, after `job apply` \
    in the database, and while it runs in the node's list of processes; put it into the nodes' store and name it in `secrets`";

pub(crate) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
