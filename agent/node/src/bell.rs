//! Wakes the task that tells people.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Rung by the session's polls.
#[derive(Default)]
pub(crate) struct Bell {
    pub(crate) rung: Notify,
    pub(crate) watched: AtomicBool,
}

impl Bell {
    /// `notifies`: some job tells somebody; `now`: there is something to tell.
    pub(crate) fn polled(&self, notifies: bool, now: bool) {
        self.watched.store(notifies, Ordering::Relaxed);
        if now {
            self.rung.notify_one();
        }
    }
}
