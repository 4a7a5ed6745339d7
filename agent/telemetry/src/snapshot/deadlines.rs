//! By when jobs must have succeeded again, with their schedules compiled once.

use std::collections::HashMap;
use std::time::Duration;

use farmhand_core::deadline::deadline;
use farmhand_core::definition::JobSpec;
use farmhand_core::due::{self, DuePolicy};
use farmhand_core::schedule::Schedule;
use farmhand_store::snapshot::{self, JobPoint};
use farmhand_store::{Db, StoreError};
use jiff::Timestamp;

/// The schedules of the jobs that were asked for last.
#[derive(Default)]
pub struct Deadlines {
    schedules: HashMap<String, Compiled>,
}

struct Compiled {
    rev: i64,
    schedule: Option<(Schedule, DuePolicy)>,
}

impl Deadlines {
    /// Compiles the schedules that are new or changed, and forgets those of jobs that are not among these.
    ///
    /// # Errors
    /// The database's.
    pub async fn learn(&mut self, db: &Db, jobs: &[JobPoint]) -> Result<(), StoreError> {
        let shown: HashMap<&str, i64> = jobs.iter().map(|j| (j.job_id.as_str(), j.rev)).collect();
        self.schedules
            .retain(|job, compiled| shown.get(job.as_str()) == Some(&compiled.rev));
        let wanted: Vec<(&str, i64)> = jobs
            .iter()
            .filter(|j| j.waits && !self.schedules.contains_key(&j.job_id))
            .map(|j| (j.job_id.as_str(), j.rev))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        for row in snapshot::specs(db, &wanted).await? {
            let spec = serde_json::from_value::<JobSpec>(row.spec).ok();
            let schedule = spec.and_then(|spec| due::compile(&row.job_id, &spec).ok());
            let rev = row.rev;
            self.schedules.insert(row.job_id, Compiled { rev, schedule });
        }
        Ok(())
    }

    /// By when the job must have succeeded again; None for one that waits for nothing.
    pub fn of(&self, job: &JobPoint) -> Option<Timestamp> {
        let (schedule, policy) = self.schedules.get(&job.job_id)?.schedule.as_ref()?;
        let hard = job.hard_ms.and_then(|ms| u64::try_from(ms).ok());
        deadline(schedule, policy, job.since, hard.map(Duration::from_millis)).filter(|_| job.waits)
    }
}
