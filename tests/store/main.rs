//! The store against real PostgreSQL.

mod fixture;
mod sessions;
