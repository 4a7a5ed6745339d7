//! What runs here, and the warden that runs it.

mod end;
mod held;
mod reconcile;
mod start;
mod start_backoff;
mod warden;

pub(crate) use held::{Attempts, Follows};
pub(crate) use start_backoff::StartBackoff;
pub(crate) use warden::{SUPERSEDED_EVERY, WardenLink, ended};
