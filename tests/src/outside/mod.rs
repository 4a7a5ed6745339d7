//! The outside that a farm tells: a webhook and a mail server on the loopback.

mod hook;
mod mailbox;

pub use hook::{Answer, Call, Hook, certificate};
pub use mailbox::{Mail, Mailbox};
