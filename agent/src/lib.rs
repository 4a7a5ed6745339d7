//! One agent on one server: decides, talks SQL, and hands commands to its warden.

pub mod agent;
mod claimer;
pub mod cli;
pub mod clock;
pub mod config;
mod dbclock;
pub mod doctor;
pub mod embedded;
mod events;
pub mod examples;
mod housekeeping;
mod http;
mod keeper;
mod metrics;
mod output;
mod random;
mod reporter;
mod runner;
mod session;
mod signals;
pub mod warden;
mod wardens;
mod watcher;
