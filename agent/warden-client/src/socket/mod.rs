//! The agent's side of a warden's socket.

mod client;
mod handshake;
mod message;

pub use client::{Notice, Notices, WardenClient};
pub(crate) use handshake::dial;
pub use message::WardenError;
pub(crate) use message::broken;
