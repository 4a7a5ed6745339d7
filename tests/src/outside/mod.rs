//! What stands around a farm: a webhook and a mail server on the loopback, a pooler before the database.

mod hook;
mod mailbox;
mod pooler;
mod tls;

pub use hook::{Answer, Call, Hook};
pub use mailbox::{Mail, Mailbox};
pub use pooler::Pooler;
pub use tls::Certificate;
