//! The lease protocol's statements: sessions, firing, claiming, ending, looking.
//!
//! Lock order: node, job, run. READ COMMITTED. Only `claim` raises `attempt`.

mod boot;
mod claim;
mod fire;
mod look;
mod outcome;
mod session;

pub use boot::{Booted, fire_boot};
pub use claim::{Claimed, Started, claim, started};
pub use fire::{Fire, Fired, SkipFold, fire, promote, promote_all};
pub use look::{CancelWanted, HeldOver, JobRow, Look, NodeBeat, Overdue, Running, jobs_since, look, overdue};
pub use outcome::{
    Finish, FinishResult, Lose, LostWhy, Now, Release, Retry, finish, lose, rehold, release, retry,
};
pub use session::{
    Closed, Expired, Freed, FreedTo, Held, NodeInfo, Opened, Renewed, abandon, close, condemn, expire,
    force_expire, open, open_timeline, release_held, renew, sweep,
};
