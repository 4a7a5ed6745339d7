//! The pure part: no async, no clock, no randomness, no I/O.

pub mod attempt;
pub mod colour;
pub mod command;
pub mod continuous;
pub mod deadline;
mod defaults;
pub mod definition;
pub mod document;
pub mod due;
pub mod durations;
pub mod explain;
pub mod flow;
pub mod graph;
pub mod health;
pub mod input;
pub mod lease;
pub mod making;
pub mod notify;
pub mod patterns;
pub mod release;
pub mod retry;
pub mod run;
pub mod schedule;
pub mod serde_list;
mod serde_time;
pub mod stream;
pub mod text;
pub mod trace;
pub mod trigger;
#[cfg(test)]
mod trigger_tests;
pub mod verdict;
pub mod waits;

/// For [`words!`] of other crates.
#[cfg(feature = "schema")]
#[doc(hidden)]
pub use utoipa;
mod word_enum;
