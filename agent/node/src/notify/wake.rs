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
pub(crate) struct Wake {
    pub(crate) rung: Notify,
    /// Missed deadlines are to be looked for now.
    pub(crate) watch: Notify,
    /// Some job tells somebody.
    pub(crate) watched: AtomicBool,
    seen: Mutex<Option<Watch>>,
    /// The last look for them failed.
    failed: AtomicBool,
}

impl Wake {
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

    /// Missed deadlines were looked for, or could not be.
    pub(crate) fn looked(&self, well: bool) {
        self.failed.store(!well, Ordering::Relaxed);
    }

    /// Whether this agent looks for missed deadlines when it reads the farm's gauges. Not while the last look failed: notifications have a
    /// connection of their own, which may be lost while the gauges are read. Another agent looks then.
    pub(crate) fn can_watch(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::session::polls::poll;

    const EVERY: Duration = Duration::from_secs(15);

    /// Whether it is this agent's turn, so long after somebody last looked.
    async fn looks(since: Option<i64>, every: Option<Duration>) -> bool {
        let (wake, mut poll) = (Wake::default(), poll(1, 1, true, 30_000));
        poll.watched_at = since.map(|s| poll.db_now - SignedDuration::from_secs(s));
        wake.polled(&poll, every);
        tokio::time::timeout(Duration::ZERO, wake.watch.notified())
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn another_agent_looks_for_missed_deadlines_when_who_does_is_two_seconds_late() {
        assert!(!looks(Some(16), Some(EVERY)).await);
        assert!(looks(Some(17), Some(EVERY)).await);
        // It was told by a clock that has been set back since.
        assert!(looks(Some(-1), Some(EVERY)).await);
        assert!(!looks(None, Some(EVERY)).await, "no job tells anybody");
        assert!(!looks(Some(17), None).await, "it looks by its own clock");
    }

    #[test]
    fn an_agent_that_could_not_look_for_missed_deadlines_takes_no_turn_until_it_can() {
        let wake = Wake::default();
        assert!(wake.can_watch());
        wake.looked(false);
        assert!(!wake.can_watch());
        wake.looked(true);
        assert!(wake.can_watch());
    }
}
