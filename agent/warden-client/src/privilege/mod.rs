//! Root's rights: how an agent gives them up, what it is held to from then on, and whose the state directory is.

mod access;
mod bounds;
mod drop_root;
mod ownership;
mod rights;

pub use access::prepare;
pub use bounds::Bounds;
pub use drop_root::{Wanted, begin, without};
