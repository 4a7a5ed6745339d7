//! The validated form of one job, stored as JSON in `job.spec` and handed to whoever claims a run.
//!
//! Fields carry the names of the job file's keys. Every field has the documented default, so an older
//! agent reads a newer revision's row as far as it knows its keys.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::enabled::Enabled;
use super::flow::{FlowSpec, Resume};
use super::params::ParamSpec;
use super::placement::Placement;
use super::stream::StreamSpec;
use super::table::TableSpec;
use crate::command::Command;
use crate::continuous::Rounds;
use crate::defaults::with_defaults;
use crate::retry::Retry;
use crate::schedule::DstPolicy;
use crate::serde_time::{millis, opt_millis};

with_defaults! {
    /// A job after validation: durations parsed, defaults filled in, references checked.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct JobSpec {
        /// Cron expressions and macros; empty for a job that is only submitted or triggered.
        pub schedule: Vec<String>,
        /// IANA zone name.
        pub timezone: String = "UTC".to_owned(),
        pub dst: DstPolicy,
        pub calendars: Vec<String>,
        /// The days (`2026-12-24`, `2026-12-24..2026-12-26`) that these calendars excluded when the job was applied.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub exclude: Vec<String>,
        pub command: Option<Command>,
        /// Instead of a command.
        pub flow: Option<FlowSpec>,
        pub resume: Resume,
        /// Its rows are what is run.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub table: Option<TableSpec>,
        /// The lines of its list are what is run.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stream: Option<StreamSpec>,
        /// Per attempt, counted from exec.
        #[serde(with = "opt_millis")]
        pub timeout: Option<Duration>,
        /// Between SIGTERM and SIGKILL.
        #[serde(with = "millis")]
        pub grace: Duration = Duration::from_secs(10),
        pub overlap: Overlap,
        pub catch_up: CatchUp,
        pub retry: Retry,
        /// Exit codes by which a continuous job says that it found nothing to do.
        pub idle_exit: Vec<i32>,
        /// The pause after one of them.
        #[serde(with = "millis")]
        pub idle_delay: Duration = Duration::from_secs(30),
        pub on_lost: OnLost,
        pub run_on: RunOn,
        #[serde(rename = "where")]
        pub placement: Placement,
        #[serde(with = "millis")]
        pub spread: Duration,
        pub priority: i32,
        pub pool: Option<String>,
        pub node_pool: Option<String>,
        pub locks: Vec<String>,
        pub rate: Option<String>,
        pub user: Option<String>,
        pub cwd: Option<String>,
        pub env: BTreeMap<String, String>,
        /// By the name under which the command finds each: what it is called in the node's store.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub secrets: BTreeMap<String, String>,
        pub stdin: Option<String>,
        /// Octal file mode mask, e.g. 0o022.
        pub umask: Option<u32>,
        pub nice: Option<i32>,
        pub limits: Limits,
        pub isolation: Isolation,
        pub params: BTreeMap<String, ParamSpec>,
        pub triggered_by: Vec<String>,
        pub trigger_on: TriggerOn,
        /// RFC 3339 instants; the schedule fires only within [start, end).
        pub start: Option<String>,
        pub end: Option<String>,
        pub output: Output,
        pub notify: Vec<String>,
        /// Silence for longer ends an attempt.
        #[serde(with = "opt_millis")]
        pub progress_timeout: Option<Duration>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub child_limits: Vec<ChildLimit>,
        pub instances: u32 = 1,
        pub enabled: Enabled,
        /// For people: what it is for, whose it is, words to find it by, and where it says what to do when it fails.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub description: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub owner: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub tags: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub runbook: Option<String>,
    }
}

impl JobSpec {
    /// Whether it is due again whenever it has ended.
    pub fn is_continuous(&self) -> bool {
        self.schedule
            .iter()
            .any(|text| text.trim().eq_ignore_ascii_case("@continuous"))
    }

    /// What makes its runs, as the database has it.
    pub fn kind(&self) -> &'static str {
        match () {
            () if self.is_continuous() => "continuous",
            () if self.table.is_some() => "table",
            () if !self.schedule.is_empty() => "scheduled",
            () if !self.triggered_by.is_empty() => "triggered",
            () => "submitted",
        }
    }

    /// What each of its runs does, as the database has it.
    pub fn work(&self) -> &'static str {
        match () {
            () if self.stream.is_some() => "stream",
            () if self.flow.is_some() => "flow",
            () => "command",
        }
    }

    /// How this job goes from one round to the next.
    pub fn rounds(&self) -> Rounds {
        Rounds {
            idle_exit: self.idle_exit.clone(),
            idle_delay: self.idle_delay,
            retry: self.retry.clone(),
        }
    }
}

crate::words! {
    /// What happens to a due instant while an earlier run of the job has not ended.
    #[derive(Default)]
    Overlap {
        /// The new instant is skipped.
        #[default]
        Skip = "skip",
        /// Its run waits for the end of the earlier one.
        Queue = "queue",
        /// It waits likewise, in the place of the one that waited before.
        Latest = "latest",
        /// The earlier run is cancelled.
        Replace = "replace",
        /// Both run.
        Allow = "allow",
    }
}

with_defaults! {
    /// What becomes of instants that were missed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct CatchUp {
        pub runs: Missed,
        /// With `runs = "all"`, the newest, at most so many.
        pub max: u32 = 100,
        /// No older scheduled time is run, and no run that a node did not claim within this time.
        #[serde(with = "opt_millis")]
        pub within: Option<Duration>,
    }
}

/// Which of the due instants that nobody was there to fire are still run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// The last of them alone.
    #[default]
    Latest,
    /// Each of them, the oldest first.
    All,
    /// None.
    Skip,
}

/// What a takeover does with a run whose attempt was lost: at-least-once or at-most-once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// The run is tried again on another node.
    #[default]
    Rerun,
    /// The run ends as lost.
    Fail,
}

/// On how many nodes each firing runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunOn {
    /// One node runs it.
    #[default]
    One,
    /// Each node that fits has a run of its own.
    EachNode,
}

/// How an attempt's processes are kept together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// In a cgroup, where the node has any.
    #[default]
    Cgroup,
    /// Also in a PID namespace.
    Pid,
}

/// Which ends of a parent trigger a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerOn {
    /// A firing whose runs all succeeded.
    #[default]
    Success,
    /// A firing of which a run did not succeed.
    Failure,
    /// Any end.
    Finish,
}

/// What an attempt may use; the kernel enforces it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Bytes.
    pub memory: Option<u64>,
    /// At most so many at once.
    pub processes: Option<u32>,
}

/// What a child of a command may become before it is ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChildLimit {
    /// As `ps` shows it, or the file name of its first argument.
    pub name: String,
    /// Older ones are ended.
    #[serde(with = "opt_millis")]
    pub max_age: Option<Duration>,
    /// Bytes of resident memory.
    pub max_memory: Option<u64>,
}

with_defaults! {
    /// How much output of one attempt is kept, in bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Output {
        pub keep: u64 = 1 << 20,
        pub local: u64 = 64 << 20,
    }
}
