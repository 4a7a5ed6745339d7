//! A command.

use serde::{Deserialize, Serialize};

/// What is executed: an argument vector, or a string for `/bin/sh -c` into which nothing is ever substituted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Command {
    /// A program and its arguments.
    Argv(Vec<String>),
    /// For `/bin/sh -c`.
    Shell(String),
}
