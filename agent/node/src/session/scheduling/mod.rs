//! What becomes due, and what of it this agent claims.

mod scheduler;
mod signatures;
mod statements;
mod tables;
mod triggers;

pub(crate) use statements::{Scheduling, skips};
pub(crate) use tables::AT_ONCE;
