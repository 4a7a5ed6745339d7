//! Who jobs may run as on this node, and which commands. A file that only root can change says so; the warden reads it
//! before each start, so that a change holds at once and nothing in the database can widen it.

mod commands;
mod glob;
mod limits;
mod root_owned;
mod rules;
pub mod trust;

pub use commands::SECURE_PATH;
pub use glob::matches;
pub use limits::DefaultLimits;
pub use root_owned::{only_roots, open_trusted, read_trusted, trusted};
pub use rules::{Policy, Rules, UserRules};
