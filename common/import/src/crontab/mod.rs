//! Crontabs, and the job files that say the same.
//!
//! Pure: the texts and what is known of the machine come in, a job file and a report come out. The rules are
//! those of cron(8) and crontab(5) as Debian and cronie ship them.

mod anacron;
mod convert;
mod dialect;
mod file;
pub(crate) mod forms;
mod grammar;
mod line;
mod merge;
mod shell;
mod side_effects;
mod state;
mod zone;

pub use convert::import;
pub use file::{File, Owner, Place};
pub use line::{Line, Task, parse};
