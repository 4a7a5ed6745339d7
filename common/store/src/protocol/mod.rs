//! The lease protocol's statements: sessions, firing, claiming, ending, polling.
//!
//! Lock order: node, job, the gates' one lock, run, job_stat. READ COMMITTED. Only `claim` raises `attempt`. Ends lock jobs and waiting
//! runs behind runs, and wait for neither (end.sql).

mod boot;
mod claim;
mod ending;
mod fenced;
mod fire;
mod gated;
mod outcome;
mod poll;
mod session;
mod trigger;

pub use boot::{Booted, fire_boot};
pub use claim::{Attempt, Begun, Claimed, Started, claim, started};
pub use ending::{
    Closed, Expired, Freed, FreedEnded, FreedTo, abandon, close, close_if, end_late, expire, force_expire,
    free_ended, left_over, sweep,
};
pub use fenced::{FinishResult, Now};
pub(crate) use fire::rounds;
pub use fire::{Fire, Fired, Skipped, fire, fire_for};
pub use gated::{PartialClaim, claim_any, claim_gated};
pub use outcome::{
    Finish, GiveBack, Lose, LostWhy, Measured, Release, Retry, finish, give_back, lose, release, retry,
};
pub use poll::{AwaitedLease, CancelWanted, JobRow, Overdue, Poll, SilentLease, jobs_since, overdue, poll};
pub use session::{
    Held, Holder, NewEpoch, NodeInfo, NodeReport, Opened, Renewed, database, doubt, open, open_epoch,
    raise_sequences, readopt, remind, renew, vouch,
};
pub(crate) use session::{millis, set};
pub use trigger::{Triggers, settle, triggers};
