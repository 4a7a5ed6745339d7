//! What an attempt wrote, in files of its directory: written by the warden, read by agents.

mod read;
mod sent;
mod write;

pub use read::{Item, OutputReader};
pub use sent::{SentFile, SentSoFar, keep};
pub use write::{OutputWriter, Stream};
