//! What an agent tells about itself and the farm: events, metrics, the farm's gauges.

#![warn(unreachable_pub)]

pub mod events;
mod health;
pub mod metrics;
pub mod snapshot;

pub use health::Health;
