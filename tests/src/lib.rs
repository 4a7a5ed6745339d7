//! The test harness.

pub mod processes;
pub mod wait;
