//! When a lease ends, for the node that holds it and for the nodes that want to take it over.
//!
//! Used by the agent and by the model in `tests/model`. Everything is a function of instants passed in.

mod neighbours;
mod stopwatch;
mod timing;

pub use neighbours::{WATCHED_NEIGHBOURS, claim_delay, neighbours, rank, watch_count};
pub use stopwatch::{HeldOverKey, NodeKey, OverrunKey, Stopwatch, Stopwatches};
pub use timing::{BootInstant, CLOCK_RATE_TOLERANCE_PPM, LeaseTiming, MIN_TTL, TAKEOVER_MARGIN, TtlTooShort};
