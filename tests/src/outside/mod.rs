//! The outside that a farm tells: a webhook and a mail server on the loopback.

mod hook;
mod mailbox;
mod tls;

pub use hook::{Answer, Call, Hook};
pub use mailbox::{Mail, Mailbox};
pub use tls::Certificate;
