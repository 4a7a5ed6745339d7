//! Jobs: found, paused, resumed.

use farmhand_core::definition::JobSpec;
use farmhand_core::document::closest;
use farmhand_store::Db;
use farmhand_store::acting::Acting;
use farmhand_store::jobs::{self, Applied, ApplyOutcome, Listed, Paused, Resumed, still_begin};
use farmhand_store::reading;
use jiff::Timestamp;

use super::due_now;
use crate::{Answer, Refusal};

/// Every job, however many there are.
pub async fn all(db: &Db) -> Result<Vec<Listed>, Refusal> {
    const PAGE: i64 = 1000;
    let mut jobs: Vec<Listed> = Vec::new();
    loop {
        let after = jobs.last().map(|job| job.job_id.clone());
        let page = jobs::list_jobs(db, after.as_deref(), PAGE).await?;
        let full = i64::try_from(page.len()) == Ok(PAGE);
        jobs.extend(page);
        if !full {
            return Ok(jobs);
        }
    }
}

/// The job of a name.
/// Errors: 3 when there is none.
pub async fn one(db: &Db, name: &str) -> Result<Listed, Refusal> {
    match jobs::job(db, name).await? {
        Some(job) => Ok(job),
        None => Err(no_job(db, name).await),
    }
}

/// There is, or was, a job of that name: what it did can be read.
/// Errors: 3 when there never was one.
pub async fn known(db: &Db, name: &str) -> Result<(), Refusal> {
    if jobs::job(db, name).await?.is_some() {
        return Ok(());
    }
    match jobs::revisions(db, name, 1).await?.is_empty() {
        true => Err(no_job(db, name).await),
        false => Ok(()),
    }
}

/// What is said of a name that no job has: with the job that may be meant.
pub async fn no_job(db: &Db, name: &str) -> Refusal {
    let failure =
        Refusal::not_found(format!("there is no job {name}")).next("`farmhand job ls` shows the jobs");
    let all = match all(db).await {
        Ok(all) => all,
        Err(error) => return error,
    };
    match closest(name, all.iter().map(|job| job.job_id.as_str())) {
        Some(near) => failure.why(format!("did you mean {near}?")),
        None => failure,
    }
}

/// The definition as this version understands it.
pub fn spec(job: &Listed) -> Result<JobSpec, Refusal> {
    serde_json::from_value(job.spec.clone()).map_err(|error| {
        Refusal::refused(format!("the definition of {} cannot be read", job.job_id))
            .why(error)
            .next("a newer version may have applied it: use that one")
    })
}

/// Stops a job's schedule; false when it was stopped already.
/// Errors: 3 for an unknown job.
pub async fn pause(acting: &Acting, name: &str, by: &str, reason: Option<&str>) -> Result<bool, Refusal> {
    let db = acting.db();
    match jobs::pause(acting, name, by, reason).await? {
        Paused::Done => Ok(true),
        Paused::Already => Ok(false),
        Paused::NotFound => Err(no_job(db, name).await),
    }
}

/// Starts a paused job's schedule again; false when it was not stopped.
/// Errors: 3 for an unknown job.
pub async fn resume(acting: &Acting, name: &str, by: &str) -> Result<bool, Refusal> {
    let db = acting.db();
    let mut floor: Option<Timestamp> = None;
    for _ in 0..due_now::TRIES {
        let job = one(db, name).await?;
        let now = reading::now(db).await?.max(floor.unwrap_or(Timestamp::MIN));
        let (next_run, skipped) = due_now::after_pause(&job, &spec(&job)?, now)?;
        match jobs::resume(acting, name, job.rev, next_run, &skipped, by).await? {
            Resumed::Done => return Ok(true),
            Resumed::NotPaused => return Ok(false),
            Resumed::NotFound => return Err(no_job(db, name).await),
            Resumed::Changed => {}
            Resumed::Stale { decided_until } => floor = Some(decided_until),
        }
    }
    Err(due_now::busy(name))
}

/// Deletes jobs, all of them or none.
/// Errors: 3 for an unknown one, 4 when others are triggered by them.
pub(crate) async fn delete(
    acting: &Acting,
    names: &[String],
    by: &str,
    commit: bool,
) -> Result<Answer, Refusal> {
    let db = acting.db();
    let (mut running, mut waiting) = (0, 0);
    for name in names {
        running += usize::from(one(db, name).await?.running_at.is_some());
        waiting += still_begin(db, name).await?;
    }
    if !commit {
        return Ok(would_go(names, running, waiting).into());
    }
    match jobs::delete(acting, names, by).await? {
        ApplyOutcome::Done { applied, .. } => {
            Ok(applied.iter().map(gone).collect::<Vec<_>>().join("; ").into())
        }
        ApplyOutcome::Refused(faults) => {
            let refusal = Refusal::refused("other jobs are triggered by these; nothing was deleted");
            Err(faults.iter().fold(refusal, |refusal, fault| refusal.why(fault)))
        }
        // Of what is to be changed.
        ApplyOutcome::Blocked(_) => Err(due_now::busy("a job")),
    }
}

fn gone(job: &Applied) -> String {
    let said = job.left.and_then(|of| left(of.withdrawn, of.running));
    let said = said.map_or_else(String::new, |said| format!(": {said}"));
    format!("{} is deleted{said}", job.job_id)
}

fn would_go(names: &[String], running: usize, waiting: i64) -> String {
    let running = match running {
        0 => None,
        1 => Some("1 running now, which goes on".to_owned()),
        n => Some(format!("{n} running now, which go on")),
    };
    let waiting = match waiting {
        0 => None,
        1 => Some("1 waiting, which is withdrawn".to_owned()),
        // Of each job a thousand are counted.
        n if n >= 1_000 => Some(format!("{n} or more waiting, which are withdrawn")),
        n => Some(format!("{n} waiting, which are withdrawn")),
    };
    let live: Vec<String> = running.into_iter().chain(waiting).collect();
    let live = match live.is_empty() {
        true => String::new(),
        false => format!(" ({})", live.join("; ")),
    };
    match names {
        [one] => format!("{one} is deleted{live}; its history stays"),
        all => format!("{} are deleted{live}; their history stays", all.join(", ")),
    }
}

/// What is to be said of the runs of a job that was deleted.
pub fn left(withdrawn: i64, running: i64) -> Option<String> {
    let withdrawn = match withdrawn {
        0 => None,
        1 => Some("1 waiting run was withdrawn".to_owned()),
        n => Some(format!("{n} waiting runs were withdrawn")),
    };
    let running = match running {
        0 => None,
        1 => Some("1 run goes on, and counts for the overlap of a new job of this name".to_owned()),
        n => Some(format!(
            "{n} runs go on, and count for the overlap of a new job of this name"
        )),
    };
    let texts: Vec<String> = withdrawn.into_iter().chain(running).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}
