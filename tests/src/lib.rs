//! The test harness.

pub mod bin;
pub mod processes;
pub mod wait;
