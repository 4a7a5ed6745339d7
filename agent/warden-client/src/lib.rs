//! What the warden offers others: what it is asked and answers (`wire`), how it is started, found and spoken to, what it
//! leaves in the state directory, the proof that it is gone, and the requests that are made of claimed runs.

#![warn(unreachable_pub)]

pub mod death;
mod engine_record;
pub mod helper;
mod launch;
pub mod output;
pub mod paths;
pub mod privilege;
pub mod request;
mod socket;
pub mod wire;

pub use death::lock::is_alive;
pub use death::{PidFd, ProofOfDeath, nobody_lives};
pub use engine_record::EngineRecord;
pub use helper::Gone;
pub use launch::Launch;
pub use output::{Item, OutputReader, Stream};
pub use paths::Paths;
pub use privilege::{Bounds, prepare};
pub use socket::{Notice, Notices, WardenClient, WardenError};
