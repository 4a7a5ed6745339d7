//! What makes runs, and what the state of a job means for each maker.

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
