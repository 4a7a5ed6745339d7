//! A flow as an agent hands it to the engine that runs it inside an attempt.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::definition::{Command, FlowSpec};
use crate::document::millis;

/// On the engine's stdin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowInput {
    pub flow: FlowSpec,
    /// Tasks that are not to run again.
    pub done: BTreeSet<String>,
    /// Tasks that run again although the database says that they are done: what was signed does not leave them out.
    #[serde(default)]
    pub again: BTreeSet<String>,
}

/// The engine, as an attempt's command: this very binary, whatever has become of its file since. Its tasks have the job's `grace`.
pub fn command(grace: Duration) -> Command {
    let grace = format!("{}ms", millis(grace));
    let words = ["/proc/self/exe", "flow", "run", "--from-run", "--grace", &grace];
    Command::Argv(words.map(str::to_owned).to_vec())
}
