//! Events on their way into the database.

use farmhand_store::Db;
use farmhand_store::events::{EventRow, record_events};
use tokio::time::Instant;

use super::sets::{SHIP_EVERY, SLOW_AGAIN, is_slow};

/// Event rows written in one statement.
pub(super) const EVENT_SET: usize = 500;

/// The next set of events. While it waits for the database the others stay in the queue, which is bounded.
pub(super) struct EventRows {
    /// Filled from the queue when it is empty, with [`EVENT_SET`] at most.
    pub(super) waiting: Vec<EventRow>,
    again: Instant,
}

impl EventRows {
    pub(super) fn new() -> Self {
        Self {
            waiting: Vec::new(),
            again: Instant::now(),
        }
    }

    pub(super) fn are_due(&self) -> bool {
        !self.waiting.is_empty() && Instant::now() >= self.again
    }

    /// Writes them down; whether none is left. What fails while the database is away or broken waits for the
    /// next time.
    pub(super) async fn record(&mut self, db: &Db) -> bool {
        let mut set = EVENT_SET;
        while !self.waiting.is_empty() {
            let n = set.min(self.waiting.len());
            match record_events(db, &self.waiting[..n]).await {
                Ok(()) => drop(self.waiting.drain(..n)),
                Err(e) if !e.is_refusal() || e.is_broken() => {
                    tracing::debug!("{} events wait: {e}", self.waiting.len());
                    let pause = if is_slow(&e) { SLOW_AGAIN } else { SHIP_EVERY };
                    self.again = Instant::now() + pause;
                    return false;
                }
                // One of them would be refused for ever, and the others with it.
                Err(_) if n > 1 => set = 1,
                Err(e) => {
                    let event = self.waiting.remove(0);
                    tracing::warn!("an event {} cannot be recorded: {e}", event.kind);
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use farmhand_store::Severity;
    use serde_json::Value;

    use super::*;
    use crate::reporter::nowhere;

    #[tokio::test]
    async fn events_wait_while_the_database_is_away() {
        let (db, mut events) = (nowhere(), EventRows::new());
        events.waiting = ["a", "b"]
            .map(|kind| EventRow {
                kind: kind.to_owned(),
                severity: Severity::Info,
                job_id: None,
                run_id: None,
                attempt: None,
                address: None,
                session: None,
                fence: None,
                detail: Value::Null,
            })
            .into();
        let all = events.waiting.clone();
        for _ in 0..5 {
            assert!(!events.record(&db).await);
            assert_eq!(events.waiting, all);
        }
        assert!(
            !events.are_due(),
            "the next tick tries again, not the next message"
        );
    }
}
