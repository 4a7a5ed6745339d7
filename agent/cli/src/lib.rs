//! The command line, and what an agent is composed of.

#![warn(unreachable_pub)]

pub mod commands;
mod doctor;
pub mod embedded;
pub mod examples;
