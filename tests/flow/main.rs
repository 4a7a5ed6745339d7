//! Flows: planning, running, the FIFO files.

mod bad_inputs;
mod bench;
mod deadlock;
mod extract;
mod fifo;
mod fixture;
mod guides;
mod job_files;
mod killed;
mod locks;
mod marks;
mod output;
mod plan;
mod preload;
mod run;
mod without_engine;
mod workers;
