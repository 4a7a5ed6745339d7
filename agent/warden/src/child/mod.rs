//! What runs between fork and exec: from a copy of the warden, or a namespace's init, to a command.

mod command;
mod failure;
pub(super) mod init;
pub(super) mod launch;
mod memory;
mod plan;
pub(super) mod process;
pub(super) mod secrets;
pub(super) mod spawn;
mod user;

pub(super) use failure::system;
pub(super) use plan::{InitReport, Plan, Restore};
