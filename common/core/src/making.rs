//! What makes runs, and what the state of a job means for each maker.

use super::definition::Overlap;
use super::due::SkipReason;
use super::health::JobState;

crate::words! {
    /// What makes runs of a job.
    Maker {
        /// Its due instants.
        Schedule = "schedule",
        /// The boot of a node, for `@reboot`.
        Boot = "boot",
        /// The end of another job's run.
        Trigger = "trigger",
        /// Somebody.
        Submit = "submit",
        /// Somebody, for instants of the past.
        Backfill = "backfill",
        /// Somebody, from a run that has ended.
        Retry = "retry",
        /// Somebody, for lines that were given up.
        Replay = "replay",
        /// The rows of a table.
        Rows = "rows",
        /// The definition of a continuous job.
        Rounds = "rounds",
    }
}

/// What a maker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Making {
    /// It makes runs.
    Run,
    /// It records why there is none.
    Skip(SkipReason),
    /// It says that it makes none.
    Refuse,
    /// It passes the job over.
    Nothing,
}

impl Making {
    /// The word that `farmhand.may_make` answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Skip(reason) => reason.as_str(),
            Self::Refuse => "refuse",
            Self::Nothing => "nothing",
        }
    }
}

/// What `maker` does with a job in this state, none for one that was deleted; a paused job may also observe.
/// `farmhand.may_make` is the same table.
pub fn may_make(maker: Maker, state: Option<JobState>, observes: bool) -> Making {
    use JobState::{Disabled, Enabled, Observing, Paused};
    use Maker::{Backfill, Boot, Replay, Retry, Rounds, Rows, Schedule, Submit, Trigger};
    match (maker, state) {
        (_, Some(Enabled)) => Making::Run,
        (Submit | Backfill | Retry | Replay, Some(Paused)) if !observes => Making::Run,
        (Submit | Backfill | Retry | Replay, _) => Making::Refuse,
        (Schedule | Boot | Trigger, Some(Observing)) => Making::Skip(SkipReason::Observed),
        (Boot | Trigger, Some(Paused)) => Making::Skip(SkipReason::Paused),
        (Trigger, Some(Disabled)) => Making::Skip(SkipReason::Disabled),
        (Schedule | Boot | Trigger | Rows | Rounds, _) => Making::Nothing,
    }
}

/// What an overlap rule says to one of several instants of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Its run may begin.
    Run,
    /// Its run waits for the end of others.
    Wait,
    /// It has no run.
    Skip(SkipReason),
}

impl Says {
    /// The word that `farmhand.overlap_says` answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Wait => "wait",
            Self::Skip(reason) => reason.as_str(),
        }
    }
}

/// Firings of one class that wait for others, on one node for each-node jobs, at most.
pub const MAX_QUEUED: i64 = 1_000;

/// What the rule says to the `nth` of `instants`, from 1, while something of the job is in its way (`live`) and so many firings of its
/// class wait; None where any number may. `farmhand.overlap_says` is the same table.
pub fn overlap_says(rule: Overlap, live: bool, queued: Option<i64>, nth: i64, instants: i64) -> Says {
    match rule {
        Overlap::Allow => Says::Run,
        Overlap::Skip if live => Says::Skip(SkipReason::Overlap),
        Overlap::Queue if queued.is_some_and(|queued| queued + nth > MAX_QUEUED) => {
            Says::Skip(SkipReason::QueueFull)
        }
        Overlap::Latest | Overlap::Replace if nth < instants => Says::Skip(SkipReason::Replaced),
        Overlap::Skip | Overlap::Queue if live || nth > 1 => Says::Wait,
        Overlap::Latest | Overlap::Replace if live => Says::Wait,
        Overlap::Skip | Overlap::Queue | Overlap::Latest | Overlap::Replace => Says::Run,
    }
}
