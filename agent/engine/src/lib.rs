//! The engines: flows and workers, which need no attempt, and streams.

#![warn(unreachable_pub)]

pub mod flow;
mod journal;
pub mod locks;
pub mod stream;
