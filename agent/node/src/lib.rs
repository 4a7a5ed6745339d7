//! One agent on one server: decides, talks SQL, and hands commands to its warden.

#![warn(unreachable_pub)]

mod agent;
pub mod config;
mod context;
mod discard;
mod housekeeping;
mod inbox;
mod memory;
pub mod notify;
mod outage;
mod reporter;
mod row_writer;
pub mod runlog;
mod session;
mod ship_window;
mod signals;
mod systemd;
mod verdict;

pub use agent::{AgentError, Ended, Serve, Served, run, setup};
pub use context::Reload;
pub use session::lease::{self, LEASE_GRACE};
