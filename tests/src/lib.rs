//! The test harness.

pub mod bin;
pub mod pg;
pub mod processes;
pub mod wait;
