//! Definitions and what people do with them: apply, pause, submit, cancel.

mod applied;
mod apply;
mod backfill;
mod delete;
mod edges;
mod list;
mod operator;
mod pauses;
mod pools;
mod scope;
mod submit;
mod targets;
mod withhold;

pub use applied::{Applied, ApplyOutcome, Blocked, Change, Left};
pub use apply::{JobChange, apply, apply_all, apply_signed};
pub use backfill::{Backfilled, InstantsKnown, backfill, instants_known, ran_instants};
pub use delete::delete;
pub(crate) use list::revisions_before;
pub use list::{Listed, RevisionItem, job, list_jobs, revisions, still_begin};
pub use operator::{
    Cancelled, Once, Paused, Resumed, Retried, Wish, cancel, cancel_set, made_with, pause, resume,
    retried_runs, retry_one, retry_run, tell_many,
};
pub use pools::PoolChange;
pub use scope::{Scope, User};
pub use submit::{Submission, Submitted, submit, submit_overlapping};
pub use targets::TargetChange;
pub use withhold::{Withhold, remove_node, withhold};
