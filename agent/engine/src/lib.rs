//! The engines that run inside an attempt: flows, and streams.

pub mod flow;
pub mod stream;
