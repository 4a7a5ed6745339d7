//! Flows on one node: tasks read from the disk, planned, and run in dependency order.

pub mod engine;
pub mod events;
mod extract;
pub mod fifo;
pub mod guardian;
pub mod load;
pub(crate) mod output;
pub mod plan;
pub mod preload;
pub mod ready_marks;
pub mod report;
pub mod rundir;
pub mod signals;
pub mod spawn;
pub(crate) mod waiting_tasks;
