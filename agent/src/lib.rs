//! One agent on one server: decides, talks SQL, and hands commands to its warden.

pub mod cli;
pub mod config;
pub mod embedded;
pub mod examples;
pub mod warden;
