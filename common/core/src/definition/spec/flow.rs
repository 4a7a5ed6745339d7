//! The tasks of a job, as they are stored.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::retry::Retry;
use crate::serde_time::opt_millis;

/// Where a flow's tasks come from: a directory of every node, or the job file itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowSpec {
    /// A directory of annotated scripts, or one shell file.
    pub dir: Option<String>,
    /// How the scripts of `dir` are run.
    #[serde(flatten)]
    pub scripts: Scripts,
    /// A shell library that is loaded once, on the node that runs the flow.
    pub preload: Option<String>,
    /// Places of the pools that its tasks name.
    pub pools: BTreeMap<String, u32>,
    /// The tasks of the job file, by name.
    pub tasks: BTreeMap<String, TaskSpec>,
}

/// How the scripts of a directory are run; what the options of `farmhand flow run` say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scripts {
    /// Backwards, each called with `stop`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stop: bool,
    /// Keywords whose scripts are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// When not empty: keywords without which scripts are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// Whether a name that nobody provides is only a warning.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub missing_warns: bool,
    /// Files in the form of insserv.conf.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facilities: Vec<String>,
    /// Called with each script, prints its annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
    /// At most so many at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
}

/// One task of a job file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskSpec {
    /// A task without one is a name to wait for.
    pub command: Option<Command>,
    pub requires: Vec<String>,
    pub after: Vec<String>,
    pub before: Vec<String>,
    pub provides: Vec<String>,
    pub locks: Vec<String>,
    pub conflicts: Vec<String>,
    /// One of its places is taken, among the tasks of this flow.
    pub pool: Option<String>,
    #[serde(with = "opt_millis")]
    pub timeout: Option<Duration>,
    pub retry: Retry,
    pub env: BTreeMap<String, String>,
    /// Again, although it had succeeded before the flow was resumed.
    pub always_run: bool,
}

/// What a flow does with tasks that succeeded in an earlier attempt of its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// Run all tasks again.
    #[default]
    Restart,
    /// Go on with those that had not succeeded.
    #[serde(alias = "skip-finished")]
    SkipFinished,
}
