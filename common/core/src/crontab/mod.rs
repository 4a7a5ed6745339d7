//! Crontabs, and the job files that say the same.
//!
//! Pure: the texts and what is known of the machine come in, a job file and a report come out. The rules are
//! those of cron(8) and crontab(5) as Debian and cronie ship them.

mod convert;
mod line;
mod name;
mod write;

use serde::Serialize;

pub use convert::import;
pub use line::{Line, Task, parse};
pub use write::HEADER;

/// One crontab.
#[derive(Clone, Debug)]
pub struct File {
    /// As people know it: its path.
    pub name: String,
    pub text: String,
    pub owner: Owner,
}

/// Whose jobs a crontab holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The sixth field of each line is a user.
    System,
    /// A user's own: everything runs as this user, or as the agent's when there is none.
    User(Option<String>),
}

/// What cron knew of its machine and a job file must say.
pub struct Machine<'a> {
    /// IANA name of the zone that cron's clock shows.
    pub timezone: &'a str,
    /// A user's home directory, where known.
    pub home: &'a dyn Fn(&str) -> Option<String>,
}

/// What came of a set of crontabs.
#[derive(Clone, Debug)]
pub struct Import {
    /// The text of the job file; valid whatever the crontabs held.
    pub toml: String,
    pub jobs: Vec<Imported>,
    pub files: Vec<Report>,
}

/// One line that became a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Imported {
    pub name: String,
    pub file: String,
    /// From 1.
    pub line: usize,
    /// As in the crontab.
    pub schedule: String,
    /// The zone whose clock cron read the schedule by.
    pub timezone: String,
    pub user: Option<String>,
    /// It never fires: cron accepts such dates, a schedule here does not.
    pub never: bool,
}

impl Imported {
    /// The schedule as an expression here: macros that only some crons have are spelled out.
    pub fn expression(&self) -> &str {
        line::expression(&self.schedule)
    }
}

/// What was found in one crontab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub file: String,
    pub jobs: usize,
    pub variables: usize,
    pub comments: usize,
    pub invalid: Vec<Invalid>,
    /// What a job file cannot say, or says differently.
    pub notes: Vec<Note>,
}

/// A line that is neither a job nor a variable nor a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invalid {
    /// Both from 1, the column in characters.
    pub line: usize,
    pub column: usize,
    pub problem: String,
    pub mend: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// 0 for the whole file.
    pub line: usize,
    pub text: String,
}
