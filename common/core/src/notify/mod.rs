//! Telling people: which happenings are worth a message, what it says, and where it may go.

mod address;
mod episode;
#[cfg(test)]
mod episode_tests;
mod format;
mod happening;
mod message;
mod target;
mod topic;

pub use address::{Url, email_address};
pub use episode::Tell;
pub use format::{Format, Shaped};
pub use happening::{End, Happening, Lost, Slow, State};
pub use message::{About, Message, test_message};
pub use target::{TargetSpec, pause, stored};
pub use topic::{Channel, Topic};
