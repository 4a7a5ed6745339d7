//! What Farmhand decides (`core`, pure) and stores (`store`, PostgreSQL).

pub mod core;
pub mod store;
