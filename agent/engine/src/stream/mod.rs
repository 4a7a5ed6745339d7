//! Streams on one node: the process that reads a list and runs a command for each of its lines, inside an attempt.

pub mod engine;
mod list;
mod record;

pub use record::end as recorded_end;
