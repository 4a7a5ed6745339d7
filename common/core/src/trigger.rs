//! What the end of a job makes of the jobs that it triggers: pure; what is known comes in as [`Child`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::definition::{JobSpec, TriggerOn, check_param};
use super::due::{self, SkipReason};
use super::health::JobState;
use super::making::{Maker, Making, may_make};
use super::run::RunState;

/// Ends of one parent that wait for another parent at most, for each child; older ones are given up.
pub const MAX_WAITING: usize = 1_000;

/// How a firing of a parent ended: all of its runs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FiringEnd {
    Success,
    /// At least one failed, timed out or was lost.
    Failure,
    /// None failed, and at least one was cancelled.
    Cancelled,
    /// None of its runs was made.
    Skipped,
    /// There is none, and there will be none.
    None,
}

impl FiringEnd {
    /// Of runs that have all ended, each shard's and each node's latest; `firing_end` in the database is the same decision.
    pub fn of(states: impl IntoIterator<Item = RunState>) -> Self {
        let states: Vec<RunState> = states.into_iter().collect();
        let any = |wanted: &[RunState]| states.iter().any(|state| wanted.contains(state));
        if states.is_empty() {
            Self::None
        } else if any(RunState::FAILURES) {
            Self::Failure
        } else if any(&[RunState::Cancelled]) {
            Self::Cancelled
        } else if any(&[RunState::Skipped]) {
            Self::Skipped
        } else {
            Self::Success
        }
    }

    /// Whether a job that is triggered `on` something follows this end.
    pub fn triggers(self, on: TriggerOn) -> bool {
        match on {
            TriggerOn::Success => self == Self::Success,
            TriggerOn::Failure => self == Self::Failure,
            TriggerOn::Finish => matches!(self, Self::Success | Self::Failure | Self::Cancelled),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Success => "succeeded",
            Self::Failure => "failed",
            Self::Cancelled => "was cancelled",
            Self::Skipped => "was skipped",
            Self::None => "has no run there",
        }
    }
}

/// A job that others trigger, and their ends that have not been dealt with, oldest first.
#[derive(Clone, Debug, Deserialize)]
pub struct Child {
    /// The job that may be triggered.
    pub job_id: String,
    /// None for one that was deleted.
    pub state: Option<JobState>,
    /// Its definition, as it is stored.
    pub spec: Value,
    /// In the order of the definition's list.
    pub parents: Vec<Parent>,
    /// Of its parents' runs, which it has not followed yet.
    pub ends: Vec<End>,
}

/// A job that triggers another, and by which ends.
#[derive(Clone, Debug, Deserialize)]
pub struct Parent {
    pub job_id: String,
    pub on: TriggerOn,
}

/// The end of a parent's run.
#[derive(Clone, Debug, Deserialize)]
pub struct End {
    /// Of the row that tells it.
    pub id: i64,
    pub parent: String,
    pub run_id: i64,
    /// The first of several runs that were made together.
    pub firing: Option<i64>,
    /// The instant that the run is for.
    pub due_at: Timestamp,
    /// No schedule said when: somebody submitted it, or the run that triggered it.
    pub by_hand: bool,
    /// Of the whole firing; None while a run of it lives, whose end comes here by itself.
    pub end: Option<FiringEnd>,
    /// None when the run's record is gone.
    pub params: Option<Map<String, Value>>,
    /// The other parents, as far as this end triggers.
    pub others: Vec<Stand>,
}

/// How another parent stands.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Stand {
    pub parent: String,
    /// Why its end is still to come, if so.
    pub wait: Option<Wait>,
    /// How its firing ended, if it has.
    pub end: Option<FiringEnd>,
    pub run_id: Option<i64>,
    /// The first of several runs that were made together.
    pub firing: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
}

/// Why the end of another parent is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Its run has not ended.
    Running,
    /// Its run at this instant has not been made yet.
    ToCome,
    /// It has never run.
    First,
}

/// What becomes of one end, or of several that met.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing: it does not trigger, or its firing goes on.
    Drop,
    /// Look again when one of these ends.
    Wait(Vec<String>),
    /// Make these runs.
    Fire(Firing),
}

/// A firing of the child, or the record of why there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    pub job_id: String,
    /// The instant that its runs are for.
    pub due_at: Timestamp,
    /// Whether a person began the chain of triggers.
    pub by_hand: bool,
    /// The run whose end it was.
    pub parent_run: i64,
    /// The run of each parent.
    pub parents: Map<String, Value>,
    pub params: Map<String, Value>,
    /// Why it does not run: a word, and what people want to know beyond it.
    pub skip: Option<String>,
    pub ends: Vec<i64>,
}

impl Child {
    /// Decides the ends one by one, up to the first that makes a firing: what comes after it depends on it.
    pub fn decide(&self) -> Vec<(i64, Decision)> {
        let Ok(spec) = serde_json::from_value::<JobSpec>(self.spec.clone()) else {
            // A newer version wrote it, and its agents deal with it.
            return self
                .ends
                .iter()
                .map(|end| (end.id, Decision::Wait(Vec::new())))
                .collect();
        };
        let mut decisions = Vec::new();
        let waiting = self.ends.iter().filter(|end| self.is_waiting(end)).count();
        let mut give_up = waiting.saturating_sub(MAX_WAITING);
        for end in &self.ends {
            let crowded = give_up > 0 && self.is_waiting(end);
            give_up -= usize::from(crowded);
            let decision = self.of(end, &spec, crowded);
            let fires = matches!(decision, Decision::Fire(_));
            decisions.push((end.id, decision));
            if fires {
                break;
            }
        }
        decisions
    }

    fn on(&self, parent: &str) -> Option<TriggerOn> {
        let found = self.parents.iter().find(|p| p.job_id == parent);
        found.map(|p| p.on)
    }

    fn is_waiting(&self, end: &End) -> bool {
        end.others.iter().any(|other| other.wait.is_some())
    }

    fn of(&self, end: &End, spec: &JobSpec, crowded: bool) -> Decision {
        let follows = |e: FiringEnd, parent: &str| self.on(parent).is_some_and(|on| e.triggers(on));
        if !end.end.is_some_and(|e| follows(e, &end.parent)) {
            return Decision::Drop;
        }
        if may_make(Maker::Trigger, self.state, false) == Making::Nothing {
            return Decision::Drop;
        }
        let missed = end.others.iter().find_map(|other| {
            let ended = other.end.filter(|e| !follows(*e, &other.parent))?;
            Some(match other.run_id {
                Some(run) => format!("run {run} of {} {}", other.parent, ended.word()),
                None => format!("{} {}", other.parent, ended.word()),
            })
        });
        if let Some(missed) = missed {
            return Decision::Fire(self.skipped(end, format!("{}: {missed}", SkipReason::Trigger)));
        }
        let waits = || end.others.iter().filter(|other| other.wait.is_some());
        if waits().next().is_some() {
            if crowded {
                return Decision::Fire(self.skipped(end, "queue_full".to_owned()));
            }
            let newer = (self.ends.iter()).find(|e| e.id > end.id && e.by_hand && e.parent == end.parent);
            if let (true, Some(newer)) = (end.by_hand, newer) {
                let why = format!(
                    "{}: run {} of {} came after it",
                    SkipReason::Trigger,
                    newer.run_id,
                    newer.parent
                );
                return Decision::Fire(self.skipped(end, why));
            }
            return Decision::Wait(waits().map(|other| other.parent.clone()).collect());
        }
        let mut firing = self.firing(end);
        firing.skip = self
            .refusal(spec, end)
            .or_else(|| self.fill(spec, &mut firing, end).err());
        Decision::Fire(firing)
    }

    /// All that met, and all ends that this deals with.
    fn firing(&self, end: &End) -> Firing {
        let runs: Vec<(&str, i64, Option<i64>)> =
            std::iter::once((end.parent.as_str(), end.run_id, end.firing))
                .chain((end.others.iter()).filter_map(|o| Some((o.parent.as_str(), o.run_id?, o.firing))))
                .collect();
        let met = |e: &End| {
            runs.iter().any(|(parent, run, firing)| {
                e.parent == *parent && (e.run_id == *run || (firing.is_some() && e.firing == *firing))
            })
        };
        Firing {
            job_id: self.job_id.clone(),
            due_at: end.due_at,
            by_hand: end.by_hand,
            parent_run: end.run_id,
            parents: runs
                .iter()
                .map(|(p, run, _)| ((*p).to_owned(), (*run).into()))
                .collect(),
            params: Map::new(),
            skip: None,
            ends: self.ends.iter().filter(|e| met(e)).map(|e| e.id).collect(),
        }
    }

    fn skipped(&self, end: &End, why: String) -> Firing {
        let mut firing = self.firing(end);
        // What the others did counts for their own ends.
        firing.ends = (self.ends.iter())
            .filter(|e| {
                e.id == end.id || (e.firing.is_some() && e.firing == end.firing && e.parent == end.parent)
            })
            .map(|e| e.id)
            .collect();
        firing.skip = Some(why);
        firing
    }

    /// Why the job does not run at that instant, whatever its parents did.
    fn refusal(&self, spec: &JobSpec, end: &End) -> Option<String> {
        if let Making::Skip(reason) = may_make(Maker::Trigger, self.state, false) {
            return Some(reason.to_string());
        }
        match due::compile(&self.job_id, spec) {
            Ok((_, policy)) => due::skipped_at(&policy, end.due_at).map(|reason| reason.to_string()),
            Err(error) => Some(format!(
                "{}: its definition cannot be used: {error}",
                SkipReason::Trigger
            )),
        }
    }

    /// The parents' parameters that the job declares; of several parents that have one, the last in the list gives it.
    fn fill(&self, spec: &JobSpec, firing: &mut Firing, end: &End) -> Result<(), String> {
        for parent in &self.parents {
            let params = if parent.job_id == end.parent {
                end.params.as_ref()
            } else {
                let other = end.others.iter().find(|o| o.parent == parent.job_id);
                other.and_then(|o| o.params.as_ref())
            };
            for (name, value) in params.into_iter().flatten() {
                let Some(declared) = spec.params.get(name) else {
                    continue;
                };
                // Kept even when it does not fit: the record then shows it.
                firing.params.insert(name.clone(), value.clone());
                check_param(name, declared.kind, value)
                    .map_err(|error| format!("{}: {error}, from {}", SkipReason::Params, parent.job_id))?;
            }
        }
        let missing = (spec.params.iter())
            .find(|(name, p)| p.required && p.default.is_none() && !firing.params.contains_key(*name));
        match missing {
            Some((name, _)) => Err(format!(
                "{}: no parent has the parameter `{name}`",
                SkipReason::Params
            )),
            None => Ok(()),
        }
    }
}
