//! What the warden offers others: what it is asked and answers (`wire`), how it is started, found and spoken to, what it
//! leaves in the state directory, the proof that it is gone, and the requests that are made of claimed runs.

#![warn(unreachable_pub)]

pub mod census;
pub mod cgroup;
mod client;
pub mod clock;
mod gone;
mod hello;
mod launch;
pub mod lock;
pub mod mark;
pub mod output;
pub mod paths;
pub mod privilege;
pub mod privsep;
mod proof;
mod reader;
pub mod request;
pub mod sweep;
pub mod wire;

pub use client::{Notice, Notices, WardenClient, WardenError};
pub use clock::{MILLISECOND, SECOND, boottime_ns, wall_ms};
pub use gone::Gone;
pub use launch::Launch;
pub use lock::is_alive;
pub use output::Stream;
pub use paths::Paths;
pub(crate) use paths::{readable_file, regroup};
pub use privilege::Bounds;
pub use proof::{PidFd, ProofOfDeath, nobody_lives};
pub use reader::{Item, OutputReader};
