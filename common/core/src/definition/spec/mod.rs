//! What a job is, as it is stored.

pub mod difference;
pub mod enabled;
pub mod flow;
pub mod job;
pub mod names;
pub mod needs;
pub mod params;
pub mod placement;
pub mod stream;
pub mod table;
pub mod triggers;
