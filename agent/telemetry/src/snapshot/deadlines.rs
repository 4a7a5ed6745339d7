//! What jobs' definitions say for gauges, read once for each revision: by when they must have succeeded again, and whose they are.

use std::collections::HashMap;
use std::time::Duration;

use farmhand_core::deadline::deadline;
use farmhand_core::definition::JobSpec;
use farmhand_core::due::{self, DuePolicy};
use farmhand_core::schedule::Schedule;
use farmhand_store::snapshot::{self, JobPoint};
use farmhand_store::{Db, StoreError};
use jiff::Timestamp;

/// Of the jobs that were asked for last.
#[derive(Default)]
pub struct Deadlines {
    known: HashMap<String, Known>,
}

struct Known {
    rev: i64,
    schedule: Option<(Schedule, DuePolicy)>,
    people: ForPeople,
}

/// Whose a job is, and what to do when it fails; empty where its definition does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForPeople {
    pub owner: String,
    pub runbook: String,
}

impl Deadlines {
    /// Reads the definitions that are new or changed, and forgets those of jobs that are not among these.
    pub async fn learn(&mut self, db: &Db, jobs: &[JobPoint]) -> Result<(), StoreError> {
        let shown: HashMap<&str, i64> = jobs.iter().map(|j| (j.job_id.as_str(), j.rev)).collect();
        self.known
            .retain(|job, known| shown.get(job.as_str()) == Some(&known.rev));
        let wanted: Vec<(&str, i64)> = jobs
            .iter()
            .filter(|j| !self.known.contains_key(&j.job_id))
            .map(|j| (j.job_id.as_str(), j.rev))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        for row in snapshot::specs(db, &wanted).await? {
            let spec = serde_json::from_value::<JobSpec>(row.spec).ok();
            let known = Known {
                rev: row.rev,
                schedule: (spec.as_ref()).and_then(|spec| due::compile(&row.job_id, spec).ok()),
                people: spec.map_or_else(ForPeople::default, |spec| ForPeople {
                    owner: spec.owner.unwrap_or_default(),
                    runbook: spec.runbook.unwrap_or_default(),
                }),
            };
            self.known.insert(row.job_id, known);
        }
        Ok(())
    }

    /// By when the job must have succeeded again; None for one that waits for nothing.
    pub fn of(&self, job: &JobPoint) -> Option<Timestamp> {
        let (schedule, policy) = self.known.get(&job.job_id)?.schedule.as_ref()?;
        let hard = job.hard_ms.and_then(|ms| u64::try_from(ms).ok());
        deadline(schedule, policy, job.since, hard.map(Duration::from_millis)).filter(|_| job.waits)
    }

    /// None for a job whose definition says neither.
    pub(crate) fn people(&self, job: &JobPoint) -> Option<&ForPeople> {
        let people = &self.known.get(&job.job_id)?.people;
        (*people != ForPeople::default()).then_some(people)
    }
}
