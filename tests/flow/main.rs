//! Flows: planning, running, the FIFO files.

mod bad_inputs;
mod fifo;
mod fixture;
mod plan;
mod run;
