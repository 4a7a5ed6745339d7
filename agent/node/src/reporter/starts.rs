//! When attempts began, as people are shown it while they run.

use std::collections::HashMap;

use farmhand_store::protocol::{self, Started};
use farmhand_store::{Db, LeaseIdentity};
use jiff::Timestamp;
use tokio::time::Instant;

use super::sets::{SLOW_AGAIN, is_slow};
use crate::row_writer::RowBell;
use farmhand_warden_client::wire::AttemptId;

/// Starts that the database has not heard of; bounded by the attempts that live here. Those that end within a tick never are told.
pub(super) struct Starts {
    waiting: HashMap<AttemptId, (LeaseIdentity, Started)>,
    /// A statement that took too long holds up everything else that is to be written down.
    again: Instant,
}

impl Starts {
    pub(super) fn new() -> Self {
        Self {
            waiting: HashMap::new(),
            again: Instant::now(),
        }
    }

    pub(super) fn note(&mut self, me: LeaseIdentity, attempt: protocol::Attempt, started_at: Timestamp) {
        let started = Started {
            run_id: attempt.run_id,
            attempt: attempt.attempt,
            fence: attempt.fence,
            started_at,
        };
        self.waiting.insert(attempt.into(), (me, started));
    }

    /// The attempt has ended, or this node no longer holds it.
    pub(super) fn forget(&mut self, id: AttemptId) {
        self.waiting.remove(&id);
    }

    pub(super) fn are_due(&self) -> bool {
        !self.waiting.is_empty() && Instant::now() >= self.again
    }

    /// Writes them down. A run whose start is not written down counts as stalled, so that what fails waits for the next time;
    /// what is refused has moved on.
    pub(super) async fn show(&mut self, db: &Db, row_bell: &RowBell) {
        let mut by_session: HashMap<LeaseIdentity, Vec<Started>> = HashMap::new();
        for (me, started) in self.waiting.values() {
            by_session.entry(me.clone()).or_default().push(started.clone());
        }
        for (me, starts) in by_session {
            match protocol::started(db, &me, &starts).await {
                Ok(begun) if begun.iter().any(|b| b.of_row) => row_bell.ring(),
                Ok(_) => {}
                Err(e) if e.is_refusal() && !e.is_broken() => tracing::error!("starts cannot be shown: {e}"),
                Err(e) => {
                    tracing::debug!("starts wait: {e}");
                    if is_slow(&e) {
                        self.again = Instant::now() + SLOW_AGAIN;
                    }
                    continue;
                }
            }
            for started in starts {
                self.forget(AttemptId {
                    run_id: started.run_id,
                    attempt: started.attempt,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reporter::nowhere;

    #[tokio::test]
    async fn a_start_that_the_database_did_not_hear_of_waits_until_its_attempt_ends() {
        let (db, mut starts) = (nowhere(), Starts::new());
        let me = LeaseIdentity {
            address: "a".to_owned(),
            session: 1,
            incarnation: uuid::Uuid::nil(),
        };
        let attempt = |run_id| AttemptId { run_id, attempt: 1 };
        for run_id in [1, 2] {
            starts.note(me.clone(), attempt(run_id).fenced(7), Timestamp::UNIX_EPOCH);
        }
        starts.show(&db, &RowBell::default()).await;
        assert_eq!(starts.waiting.len(), 2);
        assert!(starts.are_due(), "the next tick tries again");
        starts.forget(attempt(1));
        starts.show(&db, &RowBell::default()).await;
        assert_eq!(starts.waiting.keys().collect::<Vec<_>>(), [&attempt(2)]);
    }
}
