//! Storing definitions, and what the database says against it.

use std::collections::BTreeMap;

use farmhand_core::due;
use farmhand_store::acting::Acting;
use farmhand_store::jobs::{Applied, ApplyOutcome, Blocked, JobChange, Scope, apply_signed};
use farmhand_store::reading;
use jiff::Timestamp;

use super::files::{Files, Wanted};
use super::source::{needed, other_source};
use crate::{Refusal, due_now};

/// Applies in one transaction and says what became of each job, with the pools and targets of the files when there are files, firing first what is
/// overdue under the present definitions.
/// Errors: 4 for a pool or target that is not there, or a pool that would go while runs use it.
pub async fn store(
    acting: &Acting,
    wanted: &[Wanted],
    shared: Option<&Files>,
    scope: Scope<'_>,
    by: &str,
) -> Result<Vec<Applied>, Refusal> {
    let db = acting.db();
    let (pools, targets) = (shared.map(|f| &f.pools[..]), shared.map(|f| &f.targets[..]));
    let signed = (wanted.iter()).filter_map(|job| Some((job.name.clone(), job.signed.clone()?)));
    let signed = signed.collect();
    let mut decided: BTreeMap<String, Timestamp> = BTreeMap::new();
    for _ in 0..due_now::TRIES {
        let now = reading::now(db).await?;
        let changes = wanted
            .iter()
            .map(|job| change(job, decided.get(&job.name).map_or(now, |d| now.max(*d))))
            .collect::<Result<Vec<_>, _>>()?;
        let blocked = match apply_signed(acting, &changes, &signed, (pools, targets), scope, by).await? {
            ApplyOutcome::Done { applied, .. } => return Ok(applied),
            ApplyOutcome::Refused(faults) => {
                let refusal = Refusal::refused("the triggers of the jobs do not fit together");
                let refusal = faults.iter().fold(refusal, |r, fault| r.why(fault));
                return Err(refusal.next("nothing was applied; fix `triggered_by`"));
            }
            ApplyOutcome::Blocked(blocked) => blocked,
        };
        let mut overdue = Vec::new();
        for obstacle in blocked {
            match obstacle {
                Blocked::Overdue { job_id, .. } => overdue.push(job_id),
                Blocked::Stale {
                    job_id,
                    decided_until,
                } => {
                    decided.insert(job_id, decided_until);
                }
                Blocked::OtherSource { what, name, source } => {
                    return Err(other_source(what, &name, &source));
                }
                Blocked::Needed { what, name, by } => return Err(needed(what, &name, &by)),
                Blocked::NoPool { job_id, pool } => return Err(no_pool(&job_id, &pool)),
                Blocked::PoolInUse { pool, runs } => return Err(pool_in_use(&pool, &runs)),
                Blocked::NoTarget { job_id, target } => return Err(no_target(&job_id, &target)),
            }
        }
        if !overdue.is_empty() {
            due_now::fire_overdue(db, &overdue).await?;
        }
    }
    Err(due_now::busy("a job"))
}

fn change(job: &Wanted, after: Timestamp) -> Result<JobChange, Refusal> {
    let (schedule, policy) = due::compile(&job.name, &job.spec).map_err(due_now::unusable)?;
    Ok(JobChange {
        job_id: job.name.clone(),
        spec: job.spec.clone(),
        next_run: due::next_run(&schedule, &policy, after),
        source: job.source.clone(),
    })
}

fn no_pool(job_id: &str, pool: &str) -> Refusal {
    Refusal::refused("nothing was applied")
        .why(format!("{job_id} needs the pool {pool}, and there is none"))
        .next(format!("apply a file with [pool.{pool}] first"))
}

fn pool_in_use(pool: &str, runs: &[i64]) -> Refusal {
    let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
    Refusal::refused("nothing was applied")
        .why(format!(
            "the pool {pool} would be deleted, and runs are in it or wait for it: {}",
            runs.join(", ")
        ))
        .next("wait for them, or `farmhand run cancel` them; `farmhand pool ls` shows who is in it")
}

fn no_target(job_id: &str, target: &str) -> Refusal {
    Refusal::refused("nothing was applied")
        .why(format!("{job_id} notifies {target}, and there is no such target"))
        .next(format!("apply a file with [notify.{target}] first"))
}
