//! Whether a job is well: the one decision that command line, page, API and verdict show.

use serde::{Deserialize, Serialize};

/// What is known about a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFacts {
    pub enabled: bool,
    pub paused: bool,
    /// Its instant passed more than ten seconds ago, and no agent fired it.
    pub overdue: bool,
    /// Firings that failed since the last that succeeded.
    pub failures: i32,
    /// A run has been ready for a minute, or waited five for a pool, a lock or a rate.
    pub waiting: bool,
    pub running: bool,
}

/// How a job is; what is worse comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobHealth {
    /// Its instants pass and no agent fires them.
    Late,
    /// Its last firing failed.
    Failing,
    /// A run cannot start.
    Waiting,
    Running,
    Paused,
    Disabled,
    Enabled,
}

/// What a verdict makes of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Quiet,
    Attention,
    Trouble,
}

impl std::fmt::Display for JobHealth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl JobHealth {
    pub const ALL: [JobHealth; 7] = [
        JobHealth::Late,
        JobHealth::Failing,
        JobHealth::Waiting,
        JobHealth::Running,
        JobHealth::Paused,
        JobHealth::Disabled,
        JobHealth::Enabled,
    ];

    pub fn of(facts: &JobFacts) -> Self {
        match facts {
            JobFacts { enabled: false, .. } => Self::Disabled,
            JobFacts { paused: true, .. } => Self::Paused,
            JobFacts { overdue: true, .. } => Self::Late,
            JobFacts { failures: 1.., .. } => Self::Failing,
            JobFacts { waiting: true, .. } => Self::Waiting,
            JobFacts { running: true, .. } => Self::Running,
            _ => Self::Enabled,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Failing => "failing",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
        }
    }

    /// How much a verdict makes of it.
    pub fn severity(self) -> Severity {
        match self {
            Self::Late => Severity::Trouble,
            Self::Failing | Self::Waiting => Severity::Attention,
            Self::Running | Self::Paused | Self::Disabled | Self::Enabled => Severity::Quiet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunState::{self, *};
    use crate::trigger::FiringEnd;

    /// What the runs of a firing make of it.
    #[test]
    fn a_firing_has_one_outcome() {
        let table: [(&[RunState], FiringEnd); 14] = [
            (&[], FiringEnd::None),
            (&[Succeeded], FiringEnd::Success),
            (&[Failed], FiringEnd::Failure),
            (&[TimedOut], FiringEnd::Failure),
            (&[Lost], FiringEnd::Failure),
            (&[Cancelled], FiringEnd::Cancelled),
            (&[Skipped], FiringEnd::Skipped),
            (&[Succeeded, Succeeded, Succeeded], FiringEnd::Success),
            (&[Succeeded, Failed, Succeeded, Succeeded], FiringEnd::Failure),
            (&[Failed, Succeeded], FiringEnd::Failure),
            (&[Lost, Cancelled], FiringEnd::Failure),
            (&[TimedOut, Skipped], FiringEnd::Failure),
            (&[Cancelled, Succeeded], FiringEnd::Cancelled),
            (&[Skipped, Succeeded], FiringEnd::Skipped),
        ];
        for (states, outcome) in table {
            assert_eq!(FiringEnd::of(states.iter().copied()), outcome, "{states:?}");
        }
    }

    /// What is known of a job, and what is shown of it: the word, and what a verdict makes of it.
    #[test]
    fn a_job_has_one_health() {
        let well = JobFacts {
            enabled: true,
            ..JobFacts::default()
        };
        let failing = JobFacts { failures: 1, ..well };
        let (quiet, attention, trouble) = (Severity::Quiet, Severity::Attention, Severity::Trouble);
        let table = [
            (well, "enabled", quiet),
            (
                JobFacts {
                    running: true,
                    ..well
                },
                "running",
                quiet,
            ),
            (
                JobFacts {
                    waiting: true,
                    ..well
                },
                "waiting",
                attention,
            ),
            (
                JobFacts {
                    waiting: true,
                    running: true,
                    ..well
                },
                "waiting",
                attention,
            ),
            (failing, "failing", attention),
            (JobFacts { failures: 40, ..well }, "failing", attention),
            (
                JobFacts {
                    running: true,
                    ..failing
                },
                "failing",
                attention,
            ),
            (
                JobFacts {
                    waiting: true,
                    ..failing
                },
                "failing",
                attention,
            ),
            (
                JobFacts {
                    overdue: true,
                    ..well
                },
                "late",
                trouble,
            ),
            (
                JobFacts {
                    overdue: true,
                    ..failing
                },
                "late",
                trouble,
            ),
            (
                JobFacts {
                    overdue: true,
                    running: true,
                    ..well
                },
                "late",
                trouble,
            ),
            (JobFacts { paused: true, ..well }, "paused", quiet),
            (
                JobFacts {
                    paused: true,
                    ..failing
                },
                "paused",
                quiet,
            ),
            (
                JobFacts {
                    paused: true,
                    running: true,
                    ..well
                },
                "paused",
                quiet,
            ),
            (
                JobFacts {
                    enabled: false,
                    ..well
                },
                "disabled",
                quiet,
            ),
            (
                JobFacts {
                    enabled: false,
                    ..failing
                },
                "disabled",
                quiet,
            ),
            (
                JobFacts {
                    enabled: false,
                    paused: true,
                    ..well
                },
                "disabled",
                quiet,
            ),
        ];
        for (facts, word, severity) in table {
            let health = JobHealth::of(&facts);
            assert_eq!(
                (health.as_str(), health.severity()),
                (word, severity),
                "{facts:?}"
            );
        }
    }
}
