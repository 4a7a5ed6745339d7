//! The engines: flows and workers, which need no attempt, and streams.

#![warn(missing_docs, unreachable_pub)]

pub mod flow;
mod journal;
pub mod locks;
pub mod stream;
