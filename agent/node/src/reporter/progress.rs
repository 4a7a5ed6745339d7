//! Checkpoints on their way into the database: the newest of each attempt, all in one statement, at most once
//! a tick.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use farmhand_store::progress::{Progress, record_progress};
use farmhand_store::{Db, StoreError};

use farmhand_warden_client::wire::AttemptId;

type Pending = HashMap<AttemptId, Progress>;

/// Shared by who hears of them and who stores them; bounded by the attempts that live here, however long the database is
/// away.
#[derive(Clone, Default)]
pub(crate) struct Checkpoints {
    pending: Arc<Mutex<Pending>>,
}

impl Checkpoints {
    /// A later report replaces an earlier one; a sign of life keeps the checkpoint that waits.
    pub(crate) fn note(&self, report: Progress) {
        self.with(|pending| {
            let before = pending.remove(&id(&report)).and_then(|p| p.checkpoint);
            let checkpoint = report.checkpoint.clone().or(before);
            pending.insert(id(&report), Progress { checkpoint, ..report });
        });
    }

    /// What waits now, to be stored when everything that these checkpoints pass is written down: what is noted from here on
    /// may pass more.
    pub(crate) fn take(&self) -> Vec<Progress> {
        self.with(std::mem::take).into_values().collect()
    }

    /// Stores what was taken. What fails while the database is away waits on; what was refused has moved on, and
    /// its holder will hear of it.
    pub(crate) async fn store(&self, db: &Db, reports: Vec<Progress>) -> Result<(), StoreError> {
        match record_progress(db, &reports).await {
            Err(e) if !e.is_refusal() => {
                self.give_back(reports);
                Err(e)
            }
            // It would be refused for ever, and hold up the ends that wait for it.
            Err(e) => {
                tracing::error!("{} checkpoints cannot be stored: {e}", reports.len());
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// As [`Self::store`], where the next tick tries again.
    pub(crate) async fn store_live(&self, db: &Db, reports: Vec<Progress>) {
        if let Err(e) = self.store(db, reports).await {
            tracing::debug!("checkpoints wait: {e}");
        }
    }

    /// Lets what was taken wait on. What came meanwhile is newer.
    pub(crate) fn give_back(&self, reports: Vec<Progress>) {
        self.with(|pending| {
            for report in reports {
                match pending.entry(id(&report)) {
                    Entry::Vacant(place) => {
                        place.insert(report);
                    }
                    Entry::Occupied(mut newer) => {
                        let newer = newer.get_mut();
                        newer.checkpoint = newer.checkpoint.take().or(report.checkpoint);
                    }
                }
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Pending) -> T) -> T {
        act(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn id(report: &Progress) -> AttemptId {
    AttemptId {
        run_id: report.run_id,
        attempt: report.attempt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reporter::nowhere;

    fn report(run_id: i64, checkpoint: Option<&str>) -> Progress {
        Progress {
            run_id,
            attempt: 1,
            fence: 1,
            address: "a".to_owned(),
            session: 1,
            checkpoint: checkpoint.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn while_the_database_is_away_each_attempt_has_one_that_waits_the_newest() {
        let (db, checkpoints) = (nowhere(), Checkpoints::default());
        for n in 0..1_000 {
            checkpoints.note(report(n % 2, Some(&n.to_string())));
        }
        assert!(checkpoints.store(&db, checkpoints.take()).await.is_err());
        checkpoints.note(report(0, None));
        checkpoints.note(report(1, Some("newer")));
        assert!(checkpoints.store(&db, checkpoints.take()).await.is_err());
        let waits = checkpoints.with(std::mem::take);
        let mut waits: Vec<_> = waits.into_values().map(|p| (p.run_id, p.checkpoint)).collect();
        waits.sort();
        assert_eq!(
            waits,
            [(0, Some("998".to_owned())), (1, Some("newer".to_owned()))]
        );
    }

    #[tokio::test]
    async fn what_is_noted_after_the_taking_waits_for_the_next_time() {
        let checkpoints = Checkpoints::default();
        checkpoints.note(report(1, Some("line 499")));
        let taken = checkpoints.take();
        checkpoints.note(report(1, Some("line 500")));
        assert_eq!(taken[0].checkpoint.as_deref(), Some("line 499"));
        assert_eq!(checkpoints.take()[0].checkpoint.as_deref(), Some("line 500"));
    }

    #[test]
    fn what_is_given_back_gives_way_to_what_came_meanwhile() {
        let checkpoints = Checkpoints::default();
        checkpoints.note(report(1, None));
        checkpoints.note(report(2, Some("newer")));
        checkpoints.give_back(vec![report(1, Some("old")), report(2, Some("old"))]);
        let waits = checkpoints.with(std::mem::take);
        let checkpoint = |run_id| {
            let id = AttemptId { run_id, attempt: 1 };
            waits[&id].checkpoint.clone()
        };
        assert_eq!(
            (checkpoint(1).as_deref(), checkpoint(2).as_deref()),
            (Some("old"), Some("newer"))
        );
    }
}
