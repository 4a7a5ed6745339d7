//! One session of this node's lease, from the moment it is open until it is over.

mod across;
mod answers;
mod attempts;
mod database;
mod end;
mod io;
pub mod lease;
mod leaving;
mod poll;
mod scheduling;
mod turn;

pub(crate) use attempts::{SUPERSEDED_EVERY, StartBackoff, WardenLink, ended};
pub(crate) use io::Io;
pub(crate) use poll::challenge_after;
#[cfg(test)]
pub(crate) use poll::tests as polls;
pub(crate) use scheduling::{AT_ONCE, skips};
pub(crate) use turn::{Session, SessionEnd};
