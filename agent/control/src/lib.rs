//! What people do with a farm: one function for the command line, the API and the page.

pub mod backfill;
pub mod bulk;
pub mod definitions;
pub mod due_now;
pub mod epochs;
pub mod jobs;
pub mod many;
mod moment;
pub mod nodes;
mod perform;
mod refusal;
mod rights;
pub mod runs;

use farmhand_core::definition::{Overlap, param_text};
use farmhand_store::Role;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub use bulk::{BulkAction, Chosen, Picked};
pub use moment::{moment, past_moment};
pub use perform::perform;
pub use refusal::{Asker, Exit, Kind, MEANWHILE, Refusal};
pub use rights::{By, Token, lacks};

use farmhand_core::text::shell_word;

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make a run that is due now.
    Submit {
        job: String,
        /// Its parameters; those not given have their defaults.
        params: Map<String, Value>,
        /// What to do when an earlier run has not ended.
        overlap: Overlap,
    },
    /// End a run, or keep it from being started.
    Cancel {
        run: i64,
        /// Also the rest of this firing.
        firing: bool,
    },
    /// Run again what has ended.
    Retry {
        /// This run; the new one names it.
        run: i64,
        /// Of a flow, only what did not succeed.
        from_failed: bool,
    },
    /// Cancel or run again each of many.
    Many {
        bulk: BulkAction,
        /// Each of these.
        chosen: Chosen,
        /// Of flows, only what did not succeed.
        from_failed: bool,
    },
    /// No due instants of a job until it is resumed.
    Pause {
        job: String,
        /// Why, for others.
        reason: Option<String>,
    },
    /// Due instants again.
    Resume { job: String },
    /// Make the runs of due instants that are past.
    Backfill {
        job: String,
        /// From this instant on, as a person writes it.
        from: String,
        /// Up to this instant; up to now by default.
        to: Option<String>,
        /// Refuse to make more runs than this.
        max: usize,
    },
    /// Claim nothing more on a node.
    Cordon { node: String },
    /// Claim nothing more on a node, and end what still runs there at the deadline.
    Drain {
        node: String,
        /// A duration, as in 10m.
        deadline: Option<String>,
    },
    /// Claim on a node again.
    Uncordon { node: String },
    /// Free the runs of a node that is known to be dead.
    Release {
        node: String,
        /// This session, and no later one; without it the present one.
        session: Option<i64>,
        /// The address once more, typed.
        confirm: Option<String>,
    },
    /// Change the places of a pool.
    SetPool {
        pool: String,
        /// With 0 nothing of it starts.
        size: u32,
    },
}

/// What an action is done to.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// One job, by its name.
    Job(&'a str),
    /// One run, by its number.
    Run(i64),
    /// Runs of any jobs.
    Many,
    /// One node, by its address.
    Node(&'a str),
    /// One pool, by its name.
    Pool(&'a str),
}

/// What was done, or would be.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Answer {
    /// False for a preview.
    pub applied: bool,
    /// In a sentence.
    pub what: String,
    /// Why it may run something twice. A page asks again.
    pub twice: Option<String>,
    /// The command that does the same.
    pub cli: String,
    /// Runs that were made, ended or freed.
    pub runs: Vec<i64>,
    /// Of a preview that is about many runs: these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub chosen: Vec<Picked>,
}

impl Action {
    /// The least role that may do it.
    pub fn role(&self) -> Role {
        match self {
            // It ends the runs of others.
            Self::Submit {
                overlap: Overlap::Replace,
                ..
            } => Role::Operator,
            Self::Submit { .. } => Role::Submitter,
            Self::Release { .. } => Role::Admin,
            _ => Role::Operator,
        }
    }

    /// What it is done to.
    pub fn about(&self) -> About<'_> {
        match self {
            Self::Submit { job, .. }
            | Self::Pause { job, .. }
            | Self::Resume { job }
            | Self::Backfill { job, .. } => About::Job(job),
            Self::Cancel { run, .. } | Self::Retry { run, .. } => About::Run(*run),
            Self::Many { .. } => About::Many,
            Self::Cordon { node }
            | Self::Drain { node, .. }
            | Self::Uncordon { node }
            | Self::Release { node, .. } => About::Node(node),
            Self::SetPool { pool, .. } => About::Pool(pool),
        }
    }

    /// What it is, in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Submit { .. } => "submit",
            Self::Cancel { .. } => "cancel",
            Self::Retry { .. } => "retry",
            Self::Many {
                bulk: BulkAction::Cancel,
                ..
            } => "cancel_many",
            Self::Many { .. } => "retry_many",
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
            Self::Backfill { .. } => "backfill",
            Self::Cordon { .. } => "cordon",
            Self::Drain { .. } => "drain",
            Self::Uncordon { .. } => "uncordon",
            Self::Release { .. } => "release",
            Self::SetPool { .. } => "set_pool",
        }
    }

    /// The command that does the same.
    pub fn cli(&self) -> String {
        let run = |words: &str, run: i64| format!("{words} {run}");
        match self {
            Self::Submit { job, params, overlap } => {
                let mut text = with("job run", job);
                for (name, value) in params {
                    let pair = format!("{name}={}", param_text(value));
                    text.push_str(&format!(" -p {}", shell_word(&pair)));
                }
                if *overlap != Overlap::Allow {
                    text.push_str(&format!(" --overlap {overlap}"));
                }
                text
            }
            Self::Cancel { run: id, firing } => run("farmhand run cancel", *id) + flag(*firing, " --firing"),
            Self::Retry { run: id, from_failed } => {
                run("farmhand run retry", *id) + flag(*from_failed, " --from-failed")
            }
            Self::Many {
                bulk,
                chosen,
                from_failed,
            } => {
                let words = match bulk {
                    BulkAction::Cancel => "farmhand run cancel",
                    BulkAction::Retry => "farmhand run retry",
                };
                format!(
                    "{words}{}{}",
                    chosen.options(),
                    flag(*from_failed, " --from-failed")
                )
            }
            Self::Pause { job, reason } => with("job pause", job) + &option("--reason", reason.as_deref()),
            Self::Resume { job } => with("job resume", job),
            Self::Backfill { job, from, to, max } => {
                let (from, to) = (option("--from", Some(from)), option("--to", to.as_deref()));
                format!("{}{from}{to} --max {max}", with("job backfill", job))
            }
            Self::Cordon { node } => with("node cordon", node),
            Self::Drain { node, deadline } => {
                with("node drain", node) + &option("--deadline", deadline.as_deref())
            }
            Self::Uncordon { node } => with("node resume", node),
            Self::Release { node, .. } => with("lease release", node) + " --force",
            Self::SetPool { pool, size } => format!("{} {size}", with("pool set", pool)),
        }
    }
}

fn with(words: &str, name: &str) -> String {
    // A name that begins with a dash would be read as a flag.
    let dashes = flag(name.starts_with('-'), "-- ");
    format!("farmhand {words} {dashes}{}", shell_word(name))
}

fn option(name: &str, value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| {
        format!(" {}", shell_word(&format!("{name}={value}")))
    })
}

fn flag(set: bool, text: &'static str) -> &'static str {
    if set { text } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_its_command() {
        let job = || "it's".to_owned();
        let twins = [
            (
                Action::Submit {
                    job: job(),
                    params: Map::from_iter([("since".to_owned(), Value::from("5 m"))]),
                    overlap: Overlap::Queue,
                },
                r"farmhand job run 'it'\''s' -p 'since=5 m' --overlap queue",
            ),
            (
                Action::Cancel { run: 7, firing: true },
                "farmhand run cancel 7 --firing",
            ),
            (
                Action::Many {
                    bulk: BulkAction::Retry,
                    chosen: Chosen {
                        job: Some(job()),
                        states: vec![farmhand_core::run::RunState::Failed],
                        ..Chosen::default()
                    },
                    from_failed: true,
                },
                r"farmhand run retry '--job=it'\''s' --state=failed --yes --from-failed",
            ),
            (
                Action::Many {
                    bulk: BulkAction::Cancel,
                    chosen: Chosen {
                        runs: vec![7, 9],
                        ..Chosen::default()
                    },
                    from_failed: false,
                },
                "farmhand run cancel 7 9",
            ),
            (
                Action::Drain {
                    node: "-n".to_owned(),
                    deadline: Some("5m".to_owned()),
                },
                "farmhand node drain -- -n --deadline=5m",
            ),
        ];
        for (action, twin) in twins {
            assert_eq!(action.cli(), twin);
        }
    }
}
