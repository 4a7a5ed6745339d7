//! What reaper and warden are told on their command lines. The warden's names the word `warden` and the state
//! directory, the reaper's the word `reaper`, and neither the other's: people look for them with pgrep.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use farmhand_warden_client::Launch;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Args {
    #[serde(flatten)]
    pub launch: Launch,
    #[serde(default)]
    pub parent: Parent,
}

/// What the reaper adds for its warden.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Parent {
    pub pid: i32,
    /// What a command gets back.
    pub oom_score_adj: i32,
    /// The lock that both hold.
    pub lock_fd: i32,
    /// The timer that tells the reaper of the fence.
    pub fence_fd: i32,
    /// Where attempts get their cgroups.
    pub cgroup: Option<PathBuf>,
}

impl Args {
    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Args, String> {
        let words: Vec<OsString> = words.collect();
        let [flag, dir, told] = words.as_slice() else {
            return Err("this is started by an agent".to_owned());
        };
        let mut args: Args = serde_json::from_slice(told.as_bytes()).map_err(|e| e.to_string())?;
        args.launch.state_dir = dir.into();
        match flag == "--state-dir" && args.launch.state_dir.is_absolute() {
            true => Ok(args),
            false => Err(format!("--state-dir must be absolute, not {dir:?}")),
        }
    }
}
