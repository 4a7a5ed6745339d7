//! Which of many runs are meant, and for what.

use farmhand_core::run::RunState;
use farmhand_core::text::shell_word;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Refusal;

/// What is to be done with each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkAction {
    /// Those that have not ended.
    Cancel,
    /// Those that have ended, in new runs.
    Retry,
}

impl BulkAction {
    /// Of the runs that are chosen without a state.
    pub fn states(self) -> &'static [RunState] {
        match self {
            Self::Cancel => &[RunState::Due, RunState::Running],
            Self::Retry => RunState::FAILURES,
        }
    }

    pub(crate) fn check(self, state: RunState) -> Result<(), Refusal> {
        match (self, state.is_final()) {
            (Self::Cancel, true) => Err(Refusal::usage(format!("a run that is {state} has ended"))
                .next("runs that are due or running can be cancelled")),
            (Self::Retry, false) => Err(Refusal::usage(format!("a run that is {state} has not ended"))
                .next("only runs that have ended can be run again")),
            _ => Ok(()),
        }
    }
}

/// Which runs: those that are named, or else all that match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// Named by number; nothing else is then asked.
    pub runs: Vec<i64>,
    pub job: Option<String>,
    /// In one of these states; in any if empty.
    pub states: Vec<RunState>,
    /// Whose last attempt was on this node.
    pub node: Option<String>,
    /// Of jobs whose `where` asks for this label.
    pub label: Option<(String, String)>,
    /// With this value of this parameter.
    pub param: Option<(String, String)>,
    /// By their end or, if they have not ended, by their due instant.
    pub since: Option<Timestamp>,
    /// As `since`, the other end.
    pub until: Option<Timestamp>,
    /// No run that was made after this one: those that a preview did not show.
    pub upto: Option<i64>,
    /// To be run again: every run that matches, and not only those of the newest firing of each job.
    pub all: bool,
}

/// One of them, as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Picked {
    pub run_id: i64,
    pub job_id: String,
    /// Its state when it was picked.
    pub state: RunState,
    /// The instant that it is for.
    pub due_at: Timestamp,
}

impl Chosen {
    /// The options of the command that chooses the same.
    pub fn options(&self) -> String {
        if !self.runs.is_empty() {
            return self.runs.iter().map(|run| format!(" {run}")).collect();
        }
        let mut text = String::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!(" {}", shell_word(&format!("{name}={value}"))));
            }
        };
        add("--job", self.job.clone());
        self.states
            .iter()
            .for_each(|state| add("--state", Some(state.to_string())));
        add("--node", self.node.clone());
        let pair = |(name, value): &(String, String)| format!("{name}={value}");
        add("--label", self.label.as_ref().map(pair));
        add("--param", self.param.as_ref().map(pair));
        add("--since", self.since.map(|at| at.to_string()));
        add("--until", self.until.map(|at| at.to_string()));
        text + if self.all { " --all --yes" } else { " --yes" }
    }
}
