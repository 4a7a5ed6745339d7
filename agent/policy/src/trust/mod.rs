//! Whose definitions this node executes. The warden asks before each start, over the very text from which it then builds
//! the command itself: nothing that the database or an agent says beside it can change what runs.

mod check;
pub mod document;
pub mod keys;
mod refused;
mod seen;
#[cfg(test)]
mod tests;

pub use check::{Trust, Vouched};
pub use document::{Document, parse_signatures};
pub use keys::{PrivateKey, PublicKey};
pub use refused::Refused;
pub use seen::Seen;

/// Where the list of trusted keys is looked for when nothing else is said.
pub const DEFAULT_FILE: &str = "/etc/farmhand/trusted-keys";
