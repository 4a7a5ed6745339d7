//! The lease protocol, explored exhaustively. What is modelled, and what was found: `README.md` here.

#![expect(
    clippy::needless_range_loop,
    reason = "a run's number indexes several arrays at once"
)]

mod actions;
mod agent;
mod clones;
mod config;
mod db;
mod fire;
mod locks;
mod mutations;
mod named;
mod named_steps;
mod needs;
mod offers;
mod progress;
mod properties;
mod queue;
mod refusals;
mod scenarios;
mod size;
mod start;
mod state;
mod ttls;
mod world;
