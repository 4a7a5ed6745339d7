//! An agent that need not be root: what talks to networks gives its rights away before it does anything else, and asks a
//! *helper*, a small process that stays root, for the few things that need them. The requests are a closed set
//! (`protocol.rs`); what jobs may be is decided by the wardens, from what root wrote down ([`crate::Bounds`]).

mod handle;
pub mod protocol;
pub mod wire;

pub use handle::{Helper, LocatedWarden, here, text_as_root, text_of};
pub use protocol::{Files, Gone, Purpose};
