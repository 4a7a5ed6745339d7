//! What cron and systemd did, as their logs have it, held against what jobs that observe would have done.

mod compare;
mod log;

pub use compare::{Compared, Comparison, Observing, Single, Unknown, Verdict, Window, compare};
pub use log::{Log, Started, What};
