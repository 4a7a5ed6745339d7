//! Which runs take longer than usual. How long a job's runs usually take changes slowly, so it is remembered for a while.

use std::collections::HashMap;
use std::time::Duration;

use farmhand_core::durations::{Exceeded, Usual};
use farmhand_core::lease::BootInstant;
use farmhand_store::event::Event;
use farmhand_store::slow::{self, Running};
use farmhand_store::{Db, StoreError, reading};

use farmhand_os::clock::boot_now;

/// Jobs that are asked about by one look: the history of more would make it long.
const ASKED: usize = 100;
/// What was read of a job is good for so long.
const GOOD: Duration = Duration::from_secs(600);

/// How long the runs of jobs that run now usually take.
#[derive(Default)]
pub(super) struct SlowRuns(HashMap<String, (Option<Usual>, BootInstant)>);

impl SlowRuns {
    /// Looks at what runs and writes down what takes longer than usual. Returns what is news. `ended`: something of what is
    /// written down is over.
    pub(super) async fn look(
        &mut self,
        db: &Db,
        running: &[Running],
        ended: bool,
    ) -> Result<Vec<Event>, StoreError> {
        self.learn(db, running).await?;
        let slow: Vec<(&Running, Exceeded)> = (running.iter())
            .filter_map(|run| {
                let (usual, _) = self.0.get(&run.job_id)?;
                Some((run, Exceeded::by(usual.as_ref()?, run.lasted())?))
            })
            .collect();
        if slow.is_empty() && !ended {
            return Ok(Vec::new());
        }
        let news = slow::mark(db, &slow).await?;
        let new = slow.into_iter().filter(|(run, _)| news.contains(&run.run_id));
        Ok(new
            .map(|(run, Exceeded { p95, runs })| Event::RunSlow {
                job_id: run.job_id.clone(),
                run_id: run.run_id,
                attempt: run.attempt,
                node: run.node.clone(),
                ran: run.lasted(),
                p95,
                runs,
            })
            .collect())
    }

    /// Reads what is not known of these, the oldest runs first, and forgets jobs that do not run.
    async fn learn(&mut self, db: &Db, running: &[Running]) -> Result<(), StoreError> {
        let now = boot_now();
        self.0
            .retain(|job, (_, until)| *until > now && running.iter().any(|run| run.job_id == *job));
        let mut wanted: Vec<&str> = Vec::new();
        for run in running {
            let job = run.job_id.as_str();
            if wanted.len() < ASKED && !self.0.contains_key(job) && !wanted.contains(&job) {
                wanted.push(job);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let mut usual = reading::usual(db, wanted.clone()).await?;
        for job in wanted {
            self.0.insert(job.to_owned(), (usual.remove(job), now + GOOD));
        }
        Ok(())
    }
}
