//! Flows on one node: tasks read from the disk, planned, and run in dependency order.

pub mod fifo;
pub mod load;
pub mod plan;
