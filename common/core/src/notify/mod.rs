//! Telling people: which happenings are worth a message, what it says, and where it may go.

mod address;
mod episode;
#[cfg(test)]
mod episode_tests;
mod format;
mod message;
mod target;

pub use address::{Url, email_address};
pub use episode::{End, Happening, Lost, Slow, State, Tell};
pub use format::{Format, Shaped};
pub use message::{About, Message, test_message};
pub use target::{Channel, TargetSpec, Topic, pause, stored};
