//! The engine of a stream.

mod run;
mod state;
mod teller;
mod workers;

pub use state::{End, EngineError, StreamEngine};
