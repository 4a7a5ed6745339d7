//! Crontabs, and the job files that say the same.
//!
//! Pure: the texts and what is known of the machine come in, a job file and a report come out. The rules are
//! those of cron(8) and crontab(5) as Debian and cronie ship them.

mod beside;
mod convert;
mod forms;
mod grammar;
mod line;
mod log;
mod merge;
mod shell;
mod verify;
mod zone;

pub use convert::import;
pub use line::{Line, Task, parse};
pub use log::{Log, Started, What};
pub use verify::{Compared, Comparison, Observing, Recorded, Single, Unknown, Verdict, Window, compare};

pub use crate::import::{Import, Imported, Invalid, Machine, Note, Report};

/// One crontab.
#[derive(Clone, Debug)]
pub struct File {
    /// As people know it: its path.
    pub name: String,
    pub text: String,
    pub owner: Owner,
    /// Where its jobs are to run.
    pub place: Place,
    /// What is known of it beside its text, to be told with what is said of it.
    pub notes: Vec<String>,
}

/// Where jobs are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each run on some node.
    Any,
    /// On each node.
    EachNode,
    /// On the node with this address. The same line of several such crontabs is one job.
    Node(String),
}

/// Whose jobs a crontab holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The sixth field of each line is a user.
    System,
    /// A user's own: everything runs as this user, or as the agent's when there is none.
    User(Option<String>),
}

impl Imported {
    /// The schedule as an expression here: macros that only some crons have are spelled out. None where cron refuses it.
    pub fn expression(&self) -> Option<&str> {
        let refused = grammar::is_refused(&self.schedule);
        (!refused).then(|| line::expression(&self.schedule))
    }
}
