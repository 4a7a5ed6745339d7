//! How a run's command is filled in.

pub mod flow;
pub mod params;
pub mod placeholders;
