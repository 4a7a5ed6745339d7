//! One agent on one server: decides, talks SQL, and hands commands to its warden.

pub mod accounts;
pub mod actions;
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
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod housekeeping;
pub mod http;
mod keeper;
pub mod metrics;
pub mod notify;
mod output;
mod path_hash;
pub mod policy;
mod random;
mod reporter;
mod runlog;
mod runner;
mod session;
mod signals;
pub mod snapshot;
pub mod steward;
pub mod stream;
mod supervisor;
mod tables;
pub mod trust;
pub mod visible;
pub mod warden;
mod wardens;
mod watcher;
