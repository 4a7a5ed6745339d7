//! Wakes the task that tells people.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use farmhand_store::notify::Watch;
use farmhand_store::protocol::Poll;
use tokio::sync::Notify;

/// Who looks for missed deadlines is late by so much before another does.
const LATE: Duration = Duration::from_secs(2);

/// Rung by the session's polls.
#[derive(Default)]
pub(crate) struct Bell {
    pub(crate) rung: Notify,
    /// Missed deadlines are to be looked for now.
    pub(crate) watch: Notify,
    /// Some job tells somebody.
    pub(crate) watched: AtomicBool,
    seen: Mutex<Option<Watch>>,
}

impl Bell {
    /// The agent that exposes the farm's gauges looks for missed deadlines, once in `every`. When it is overdue, this agent looks.
    /// `None`: this agent never exposes them, and looks by its own clock.
    pub(crate) fn polled(&self, poll: &Poll, every: Option<Duration>) {
        self.watched.store(poll.watched_at.is_some(), Ordering::Relaxed);
        if poll.to_tell {
            self.rung.notify_one();
        }
        if let (Some(at), Some(every)) = (poll.watched_at, every)
            && !(at..at + every + LATE).contains(&poll.db_now)
        {
            self.watch(None);
        }
    }

    /// It is this agent's turn to look for missed deadlines, at these; None: perhaps.
    pub(crate) fn watch(&self, seen: Option<Watch>) {
        if seen.is_some() {
            *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        }
        self.watch.notify_one();
    }

    pub(crate) fn take_seen(&self) -> Option<Watch> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
