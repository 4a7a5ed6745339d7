//! The store against real PostgreSQL.

mod boots;
mod cancels;
mod claims;
mod connections;
mod definitions;
mod ends;
mod firing;
mod fixture;
mod gate_order;
mod gate_races;
mod gates;
mod holds;
mod looking;
mod overlap;
mod pooler;
mod races;
mod records;
mod rounds;
mod rounds_races;
mod schema;
mod sessions;
mod snapshots;
mod storm;
mod submit;
mod tables;
mod tls;
