//! Jobs: found, paused, resumed.

use farmhand_core::definition::JobSpec;
use farmhand_core::document::closest;
use farmhand_core::run::RunState;
use farmhand_store::Db;
use farmhand_store::jobs::{self, Listed, Paused, Resumed};
use farmhand_store::reading::{self, Paging, RunFilter};
use jiff::Timestamp;

use super::due_now;
use crate::{Kind, Refusal};

/// Every job, however many there are.
///
/// # Errors
/// As the store.
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
///
/// # Errors
/// 3 when there is none.
pub async fn one(db: &Db, name: &str) -> Result<Listed, Refusal> {
    match jobs::job(db, name).await? {
        Some(job) => Ok(job),
        None => Err(no_job(db, name).await),
    }
}

/// There is, or was, a job of that name: what it did can be read.
///
/// # Errors
/// 3 when there never was one.
pub async fn known(db: &Db, name: &str) -> Result<(), Refusal> {
    if jobs::job(db, name).await?.is_some() {
        return Ok(());
    }
    let deleted = !jobs::revisions(db, name, 1).await?.is_empty();
    if deleted && jobs::renamed_to(db, name).await?.is_none() {
        return Ok(());
    }
    Err(no_job(db, name).await)
}

/// What is said of a name that no job has: with the job that may be meant.
pub async fn no_job(db: &Db, name: &str) -> Refusal {
    match jobs::renamed_to(db, name).await {
        Ok(Some(now)) => {
            return Refusal::new(Kind::NotFound, format!("{name} was renamed to {now}"))
                .next("use that name");
        }
        Ok(None) => {}
        Err(error) => return error.into(),
    }
    let failure = Refusal::new(Kind::NotFound, format!("there is no job {name}"))
        .next("`farmhand job ls` shows the jobs");
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
///
/// # Errors
/// When a newer version wrote it.
pub fn spec(job: &Listed) -> Result<JobSpec, Refusal> {
    serde_json::from_value(job.spec.clone()).map_err(|error| {
        Refusal::new(
            Kind::Refused,
            format!("the definition of {} cannot be read", job.job_id),
        )
        .why(error)
        .next("a newer version may have applied it: use that one")
    })
}

/// Stops a job's schedule; false when it was stopped already.
///
/// # Errors
/// 3 for an unknown job.
pub async fn pause(db: &Db, name: &str, by: &str, reason: Option<&str>) -> Result<bool, Refusal> {
    match jobs::pause(db, name, by, reason).await? {
        Paused::Done => Ok(true),
        Paused::Already => Ok(false),
        Paused::NotFound => Err(no_job(db, name).await),
    }
}

/// Starts a paused job's schedule again; false when it was not stopped.
///
/// # Errors
/// 3 for an unknown job.
pub async fn resume(db: &Db, name: &str, by: &str) -> Result<bool, Refusal> {
    let mut floor: Option<Timestamp> = None;
    for _ in 0..due_now::TRIES {
        let job = one(db, name).await?;
        let now = reading::now(db).await?.max(floor.unwrap_or(Timestamp::MIN));
        let (next_run, skipped) = due_now::after_pause(&job, &spec(&job)?, now)?;
        match jobs::resume(db, name, job.rev, next_run, &skipped, by).await? {
            Resumed::Done => return Ok(true),
            Resumed::NotPaused => return Ok(false),
            Resumed::NotFound => return Err(no_job(db, name).await),
            Resumed::Changed => {}
            Resumed::Stale { decided_until } => floor = Some(decided_until),
        }
    }
    Err(due_now::busy(name))
}

/// What the database would refuse of new names (the former one and the new one), for a plan that shows them.
///
/// # Errors
/// 4 for a job with live runs, and for a name that another job has.
pub async fn check_renames(db: &Db, renames: &[(String, String)], present: &[Listed]) -> Result<(), Refusal> {
    for (former, name) in renames {
        let live = RunFilter {
            job: Some(former.clone()),
            states: vec![RunState::Due, RunState::Running],
            ..RunFilter::default()
        };
        let page = reading::runs(db, &live, &Paging::first(reading::MOST)).await?;
        let (runs, more) = (
            page.items.len(),
            if page.next.is_some() { " or more" } else { "" },
        );
        let (why, next) = if runs > 0 {
            (
                format!("{runs}{more} of its runs have not ended"),
                "pause it, wait for its runs or cancel them, apply again, and resume it",
            )
        } else if present.iter().any(|job| job.job_id == *name) {
            (
                format!("there is a job {name}"),
                "take a name that no job has had",
            )
        } else {
            continue;
        };
        return Err(Refusal::new(Kind::Refused, "nothing was applied")
            .why(format!("job {former} cannot be renamed: {why}"))
            .next(next));
    }
    Ok(())
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
