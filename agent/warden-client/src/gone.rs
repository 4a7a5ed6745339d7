//! What a proof of death says.

use serde::{Deserialize, Serialize};

/// What is left of a tree whose warden and reaper are dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gone {
    /// Nothing runs. `swept`: processes that the reaper had not ended because it was killed too.
    Empty { swept: u32 },
    /// Killed, but the kernel cannot end them (state D). No instruction of theirs will run again.
    Unkillable { pids: Vec<i32> },
}
