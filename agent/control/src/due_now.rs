//! Instants that are overdue when a definition changes: each gets its outcome before the change.

use std::collections::BTreeSet;

use farmhand_core::definition::JobSpec;
use farmhand_core::due::{self, FirePlan, SkipFold, SkipReason};
use farmhand_store::jobs::Listed;
use farmhand_store::protocol::{Fire, fire};
use farmhand_store::reading::{NodeState, Paging};
use farmhand_store::{Db, epochs, reading};
use jiff::Timestamp;

use super::jobs as job;
use crate::Refusal;

/// How often a change is computed anew because a job became due meanwhile.
pub const TRIES: usize = 10;

/// Fires those of the jobs that are overdue, as an agent would.
pub async fn fire_overdue(db: &Db, jobs: &[String]) -> Result<(), Refusal> {
    let now = reading::now(db).await?;
    let wanted: BTreeSet<&String> = jobs.iter().collect();
    let mut fires = Vec::new();
    for row in job::all(db).await? {
        let Some(seen) = row
            .next_run
            .filter(|at| *at <= now && wanted.contains(&row.job_id))
        else {
            continue;
        };
        let plan = match due::compile(&row.job_id, &job::spec(&row)?) {
            Ok((schedule, policy)) => due::plan(&schedule, &policy, seen, now),
            // An agent that can read it would have fired it by now, if there is one.
            Err(_) if now.duration_since(seen).unsigned_abs() > due::ON_TIME && any_agent(db).await? => {
                unread(seen)
            }
            Err(error) => return Err(unusable(error)),
        };
        fires.push(planned(&row, seen, plan));
    }
    let fired = fire(db, &fires).await?;
    if fired.len() < fires.len() && !epochs::newest(db).await?.open {
        return Err(Refusal::refused("claims are closed: what is due already has to be fired before the change",
        )
        .next("try again when they are open, or `farmhand job pause` it first; `farmhand epoch` says why they are closed"));
    }
    Ok(())
}

async fn any_agent(db: &Db) -> Result<bool, Refusal> {
    let ready = reading::nodes(db, Some(NodeState::Ready), &Paging::first(1)).await?;
    Ok(!ready.items.is_empty())
}

/// The outcome of an instant whose schedule cannot be read any more, as when tzdata has lost its zone. What follows it is not known: the
/// change that waits for this says when the job is due next.
fn unread(seen: Timestamp) -> FirePlan {
    FirePlan {
        following: None,
        due: Vec::new(),
        skipped: vec![SkipFold::one(SkipReason::Missed, seen)],
    }
}

fn planned(row: &Listed, seen: Timestamp, plan: FirePlan) -> Fire {
    Fire {
        job_id: row.job_id.clone(),
        rev: row.rev,
        seen,
        following: plan.following,
        due: plan.due,
        late_ms: 0,
        skipped: plan.skipped,
    }
}

/// The first instant after a pause that ends `now`, and the instants that fell into it.
pub fn after_pause(
    row: &Listed,
    spec: &JobSpec,
    now: Timestamp,
) -> Result<(Option<Timestamp>, Vec<SkipFold>), Refusal> {
    let (schedule, policy) = due::compile(&row.job_id, spec).map_err(unusable)?;
    let from = row.decided_until.max(row.paused_at).unwrap_or(now);
    Ok(due::after_pause(&schedule, &policy, from, now))
}

/// A stored definition that this version cannot schedule.
pub fn unusable(error: due::CompileError) -> Refusal {
    Refusal::refused("a stored definition cannot be scheduled by this version")
        .why(error)
        .next("apply the job again with this version")
}

/// A job that is always due.
pub fn busy(name: &str) -> Refusal {
    Refusal::refused(format!("{name} could not be changed"))
        .why("each time it was looked at, it had just become due")
        .next("try again")
}
