//! Whole farms of real agents, and what may happen to them.

mod clocks;
mod continuous;
mod database;
mod drain;
mod failover;
mod flows;
mod gates;
mod killed;
mod network;
mod no_forks;
mod oracle;
mod oracle_faults;
mod oracle_records;
mod overlap;
mod placement;
mod plan;
mod progress;
mod replaced;
mod shards;
mod silent;
mod stopped;
mod streams;
mod tables;
mod targets;
mod triggers;
mod ttls;
