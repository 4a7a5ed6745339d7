//! A command.

use serde::{Deserialize, Serialize};

/// What is executed: an argument vector, or a string for `/bin/sh -c` into which nothing is ever substituted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Command {
    Argv(Vec<String>),
    Shell(String),
}
