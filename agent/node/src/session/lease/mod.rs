//! The lease of a session.

mod copies;
mod holder;
mod keeper;

pub(crate) use holder::Deadlines;
pub use holder::{Due, LEASE_GRACE, Lease};
