//! When a lease ends, for the node that holds it and for the nodes that want to take it over.
//!
//! Used by the agent and by the model in `tests/model`. Everything is a function of instants passed in.

mod closed;
mod epoch;
mod machine;
#[cfg(test)]
mod orders;
mod silence;
mod stopwatch;
mod stopwatches;
mod timing;
mod turns;

pub use closed::Closed;
pub use epoch::{Database, EpochKey, FENCE_BITS, MAX_REMEMBERED_EPOCH, Remembered};
pub use machine::Relation;
pub use silence::{EXPIRE_SPREAD, MarksBelow, Silence, SilentNode};
pub use stopwatch::{NamedKey, NodeKey, Stopwatch};
pub use stopwatches::Stopwatches;
pub use timing::{BootInstant, CLOCK_RATE_TOLERANCE_PPM, LeaseTiming, MIN_TTL, TAKEOVER_MARGIN, TtlTooShort};
pub use turns::{claim_delay, rank};
