//! What a session sees of the other nodes.

mod failure_detector;
mod poller;

#[cfg(test)]
pub(crate) use failure_detector::tests;
pub(crate) use failure_detector::{FailureDetector, challenge_after};
pub(crate) use poller::OVERDUE_AFTER;
