//! What applying did, or why nothing was done.

use farmhand_core::definition::TriggerFault;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::scope::User;

/// What is done with one definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DefinitionChange)]
pub enum Change {
    /// The job is new, or had been deleted.
    Created,
    /// The job has a new revision.
    Updated,
    /// The definition is the one that stands.
    Unchanged,
    /// The job is gone.
    Deleted,
}

/// What applying did with one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub job_id: String,
    pub rev: i64,
    /// What was done with it.
    pub change: Change,
    /// Of a deleted job: what became of its runs.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
}

/// What became of the runs of a job that was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// How many waited, and are cancelled.
    pub withdrawn: i64,
    /// How many run, and go on.
    pub running: i64,
}

/// Why a definition cannot be applied as computed; recompute and repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Instants of the present schedule are overdue: `fire` them first, or they would have no outcome.
    Overdue {
        job_id: String,
        rev: i64,
        /// The first instant that has no outcome.
        next_run: Timestamp,
    },
    /// Everything up to `decided_until` has its outcome; `next_run` must be after it.
    Stale {
        job_id: String,
        /// The last instant that has one.
        decided_until: Timestamp,
    },
    /// Neither the farm nor the change has this pool.
    NoPool {
        job_id: String,
        /// The pool that there is not.
        pool: String,
    },
    /// A pool would be deleted that these runs (the first of them) are in or wait for.
    PoolInUse {
        /// The pool that would be deleted.
        pool: String,
        runs: Vec<i64>,
    },
    /// Neither the farm nor the change has this target of messages.
    NoTarget {
        job_id: String,
        /// The target that there is not.
        target: String,
    },
    /// Another source defines this job, pool or target.
    OtherSource {
        /// `job`, `pool` or `target`.
        what: &'static str,
        name: String,
        source: String,
    },
    /// A pool or target would be deleted that a job of another source names.
    Needed {
        /// `pool` or `target`.
        what: &'static str,
        name: String,
        by: User,
    },
}

/// The answer to `apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// Everything was applied; `seq` is what agents will see as `job_seq`.
    Done {
        /// The newest change of a definition.
        seq: i64,
        /// What was done with each.
        applied: Vec<Applied>,
    },
    /// Nothing was.
    Blocked(Vec<Blocked>),
    /// Nothing was: the jobs' triggers do not fit together.
    Refused(Vec<TriggerFault>),
}
