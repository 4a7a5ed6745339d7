//! The engines: flows and workers, which need no attempt, and streams.

pub mod flow;
pub mod locks;
pub mod stream;
