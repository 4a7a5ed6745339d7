//! The command line, and what an agent is composed of.

pub mod commands;
pub mod doctor;
pub mod embedded;
pub mod examples;
