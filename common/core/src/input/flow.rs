//! A flow as an agent hands it to the engine that runs it inside an attempt.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::definition::{Command, FlowSpec};

/// On the engine's stdin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handed {
    /// What to run.
    pub flow: FlowSpec,
    /// Tasks that are not to run again.
    pub done: BTreeSet<String>,
}

/// The engine, as an attempt's command: this very binary, whatever has become of its file since.
pub fn command() -> Command {
    let words = ["/proc/self/exe", "flow", "run", "--from-run"];
    Command::Argv(words.map(str::to_owned).to_vec())
}
