//! Ends of flows' tasks: written down at once, because what is not written down runs again after a takeover.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use farmhand_common::store::tasks::record_tasks;
use farmhand_common::store::{Db, StoreError};

use crate::flow::handed::Follower;
use crate::warden::Paths;
use crate::warden::protocol::{AttemptId, Kind};

/// How long the end of a task may go unseen.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The flows that run here.
#[derive(Debug, Default)]
pub(super) struct TaskShippers(HashMap<AttemptId, (i64, Follower)>);

impl TaskShippers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn follow(&mut self, id: AttemptId, session: i64, state_dir: &Path, kind: Kind) {
        let run_dir = Paths::new(state_dir, kind).run_dir(id);
        self.0
            .entry(id)
            .or_insert_with(|| (session, Follower::new(&run_dir)));
    }

    pub(super) fn forget(&mut self, id: AttemptId) {
        self.0.remove(&id);
    }

    pub(super) async fn ship_live(&mut self, db: &Db) {
        let ids: Vec<AttemptId> = self.0.keys().copied().collect();
        for id in ids {
            if let Err(e) = self.ship(db, id).await {
                tracing::debug!("ends of tasks wait: {e}");
                return;
            }
        }
    }

    /// Writes down all that the record of a flow has.
    pub(super) async fn ship(&mut self, db: &Db, id: AttemptId) -> Result<(), StoreError> {
        let Some((session, follower)) = self.0.get_mut(&id) else {
            return Ok(());
        };
        loop {
            match follower.pending() {
                Ok([]) => return Ok(()),
                Ok(ends) => {
                    record_tasks(db, id.run_id, id.attempt, *session, ends).await?;
                }
                Err(e) => {
                    tracing::warn!("the tasks of run {} cannot be followed: {e}", id.run_id);
                    return Ok(());
                }
            }
            follower.sent();
        }
    }
}
