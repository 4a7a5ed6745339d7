//! One agent on one server: decides, talks SQL, and hands commands to its warden.

pub mod config;
pub mod warden;
