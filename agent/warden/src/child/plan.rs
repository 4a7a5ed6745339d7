//! What a forked child needs to become the command. It also crosses the exec into a PID namespace's init.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use farmhand_os::accounts::User;
use farmhand_os::reap::Usage;
use farmhand_policy::Policy;
use farmhand_warden_client::wire::SpawnRequest;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub request: SpawnRequest,
    /// Exists already; becomes the user's.
    pub run_dir: PathBuf,
    pub restore: Restore,
    /// Read before the fork: in a namespace of its own a child sees other owners.
    pub policy: Policy,
    /// Who this process is, where that could be known without waiting; a child that is not told looks it up.
    #[serde(skip)]
    pub own: Option<User>,
}

/// What the warden changed about itself and a command must not inherit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Restore {
    pub open_files: (Option<u64>, Option<u64>),
    pub oom_score_adj: i32,
    /// Signals, as bits.
    pub ignored: u64,
}

/// Descriptors of a child, by number.
pub(crate) mod fd {
    pub(crate) const PROGRESS: i32 = farmhand_core::stream::PROGRESS_FD;
    /// Closed by a successful exec; carries a start failure otherwise.
    pub(crate) const START_ERROR: i32 = 4;
    /// Only a namespace's init has the two that follow.
    pub(crate) const STATUS: i32 = 5;
    pub(crate) const PLAN: i32 = 6;
    /// A memory file, in which the child tells the warden what to hide. Every child has it, until its exec.
    pub(crate) const SECRETS: i32 = 7;
    pub(crate) const FIRST_FREE: i32 = 8;
}

/// How a command in a PID namespace ended, as its init saw it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitReport {
    pub status: i32,
    pub usage: Usage,
    /// Others of its processes were there when it ended.
    pub left: bool,
}
