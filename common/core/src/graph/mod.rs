//! Tasks and what they say about each other become a graph: which must end before which starts.
//!
//! A name that several tasks provide (a *mark*) becomes two nodes, one that all its providers start after and
//! one that ends when all of them have. So 5,000 tasks that require what 5,000 others provide are 10,000
//! edges, not 25 million.

mod build;
mod collisions;
mod cycles;
mod lists;
mod members;
mod names;
mod order;
#[cfg(test)]
mod tests;

pub use build::{Edge, Graph, Missing, Node};
pub use collisions::Collision;
pub use cycles::{Cycle, Step};
pub use members::{Member, Place, Reference, Relation};
pub use order::{CriticalPath, Order};
