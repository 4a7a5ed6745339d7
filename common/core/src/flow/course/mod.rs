//! The course of a flow: which task may start, and what the end of one means for the others.
//!
//! Pure: time comes in as the time since the flow began.

mod deadlock;
mod settle;
mod steps;

pub use deadlock::Deadlock;
pub use steps::{Again, Course, End};
