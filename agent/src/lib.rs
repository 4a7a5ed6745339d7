//! One agent on one server: decides, talks SQL, and hands commands to its warden.

pub mod accounts;
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
pub mod flow;
mod housekeeping;
mod http;
mod keeper;
pub mod metrics;
mod output;
mod path_hash;
mod random;
mod reporter;
mod runner;
mod session;
mod signals;
pub mod snapshot;
pub mod warden;
mod wardens;
mod watcher;
