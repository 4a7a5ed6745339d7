//! The engine of a flow.

mod children;
mod deadlock;
mod run;
mod state;
mod tell;

pub use state::{FlowEngine, Options, Passed, Tools};
