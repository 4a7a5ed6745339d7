//! One agent on one server: decides, talks SQL, and hands commands to its warden.

#![warn(unreachable_pub)]

mod agent;
mod alone;
mod bell;
pub mod config;
mod context;
mod dbclock;
mod discard;
mod failure_detector;
mod housekeeping;
mod inbox;
pub mod lease;
mod listening;
mod memory;
pub mod notify;
mod outage;
mod output;
mod reporter;
mod row_writer;
pub mod runlog;
mod scheduler;
mod session;
mod signals;
mod start_pause;
mod systemd;
mod tables;
mod verdict;
mod warden_link;

pub use agent::{AgentError, Ended, Serve, Served, run, setup};
pub use context::Reload;
pub use session::LEASE_GRACE;
