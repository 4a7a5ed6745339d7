//! Ends of flows' tasks and of streams' lines: what is not written down runs again after a takeover.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use farmhand_core::definition::JobSpec;
use farmhand_store::protocol::Attempt;
use farmhand_store::streams::{ItemEnd, record_items};
use farmhand_store::tasks::{TaskEnd, record_tasks};
use farmhand_store::{Db, StoreError};

use super::record::{Follower, task_end};
use farmhand_engine::stream::recorded_end;
use farmhand_warden_client::wire::AttemptId;
use farmhand_warden_client::{EngineRecord, Paths};

/// How long the end of a task may go unseen.
pub(super) const POLL_EVERY: Duration = Duration::from_millis(10);

/// What the engine of an attempt writes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Records {
    Tasks,
    Lines,
}

impl Records {
    /// None where the command is nobody's engine.
    pub(super) fn of(spec: &JobSpec) -> Option<Self> {
        let lines = spec.stream.as_ref().map(|_| Self::Lines);
        spec.flow.as_ref().map(|_| Self::Tasks).or(lines)
    }
}

#[derive(Debug)]
enum Followed {
    Tasks(Follower<TaskEnd>),
    Lines(Follower<ItemEnd>),
}

/// What the engine of one attempt, held by `session`, has written down.
#[derive(Debug)]
struct Record {
    attempt: Attempt,
    session: i64,
    followed: Followed,
}

/// The flows and streams that run here.
#[derive(Debug, Default)]
pub(super) struct RecordShippers(HashMap<AttemptId, Record>);

impl RecordShippers {
    /// Whether there are tasks. Lines have time until the checkpoint that passes them is stored.
    pub(super) fn is_hasty(&self) -> bool {
        self.0.values().any(|r| matches!(r.followed, Followed::Tasks(_)))
    }

    pub(super) fn follow(
        &mut self,
        id: AttemptId,
        (fence, session): (i64, i64),
        state_dir: &Path,
        what: Records,
    ) {
        let paths = Paths::new(state_dir);
        self.0.entry(id).or_insert_with(|| {
            let followed = match what {
                Records::Tasks => Followed::Tasks(Follower::of(&paths, id, EngineRecord::Tasks, task_end)),
                Records::Lines => {
                    Followed::Lines(Follower::of(&paths, id, EngineRecord::Lines, recorded_end))
                }
            };
            Record {
                attempt: id.fenced(fence),
                session,
                followed,
            }
        });
    }

    pub(super) fn forget(&mut self, id: AttemptId) {
        self.0.remove(&id);
    }

    /// Writes down all that the records have; says whether it did.
    pub(super) async fn ship_live(&mut self, db: &Db) -> bool {
        let shipped = self.ship(db).await;
        if let Err(e) = &shipped {
            tracing::debug!("ends of tasks and lines wait: {e}");
        }
        shipped.is_ok()
    }

    pub(super) async fn ship(&mut self, db: &Db) -> Result<(), StoreError> {
        for (id, record) in &mut self.0 {
            let (of, session) = (record.attempt, record.session);
            match &mut record.followed {
                Followed::Tasks(follower) => {
                    while let Some(ends) = pending(*id, follower) {
                        let stored = record_tasks(db, of, session, ends).await;
                        passed(*id, stored)?;
                        follower.sent();
                    }
                }
                Followed::Lines(follower) => {
                    while let Some(ends) = pending(*id, follower) {
                        let stored = record_items(db, of, session, ends).await;
                        passed(*id, stored)?;
                        follower.sent();
                    }
                }
            }
        }
        Ok(())
    }
}

/// What is refused as such would be refused for ever, and hold up the ends that wait for it.
fn passed(id: AttemptId, stored: Result<usize, StoreError>) -> Result<(), StoreError> {
    match stored {
        Err(e) if !e.is_refusal() => Err(e),
        Err(e) => {
            tracing::error!("ends within run {} cannot be written down: {e}", id.run_id);
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

fn pending<T>(id: AttemptId, follower: &mut Follower<T>) -> Option<&[T]> {
    match follower.pending() {
        Ok([]) => None,
        Ok(ends) => Some(ends),
        Err(e) => {
            tracing::warn!("the record of run {} cannot be followed: {e}", id.run_id);
            None
        }
    }
}
