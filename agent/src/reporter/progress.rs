//! Checkpoints on their way into the database: the newest of each attempt, all in one statement, at most once
//! a tick.

use std::collections::HashMap;

use farmhand_common::store::progress::{Progress, record_progress};
use farmhand_common::store::{Db, StoreError};

use crate::warden::protocol::AttemptId;

/// Bounded by the attempts that live here.
#[derive(Default)]
pub struct Checkpoints {
    pending: HashMap<AttemptId, Progress>,
}

impl Checkpoints {
    /// A later report replaces an earlier one; a sign of life keeps the checkpoint that waits.
    pub fn note(&mut self, report: Progress) {
        let id = AttemptId {
            run_id: report.run_id,
            attempt: report.attempt,
        };
        let before = self.pending.remove(&id).and_then(|p| p.checkpoint);
        let checkpoint = report.checkpoint.or(before);
        self.pending.insert(id, Progress { checkpoint, ..report });
    }

    /// Stores what waits. What fails while the database is away waits on; what was refused has moved on, and
    /// its holder will hear of it.
    pub async fn store(&mut self, db: &Db) -> Result<(), StoreError> {
        let reports: Vec<Progress> = self.pending.values().cloned().collect();
        match record_progress(db, &reports).await {
            Err(e) if !e.is_refusal() => return Err(e),
            // It would be refused for ever, and hold up the ends that wait for it.
            Err(e) => tracing::error!("{} checkpoints cannot be stored: {e}", reports.len()),
            Ok(_) => {}
        }
        self.pending.clear();
        Ok(())
    }

    /// As [`Self::store`], where the next tick tries again.
    pub async fn store_live(&mut self, db: &Db) {
        if let Err(e) = self.store(db).await {
            tracing::debug!("checkpoints wait: {e}");
        }
    }
}
