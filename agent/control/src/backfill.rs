//! Runs for instants of the past that have none.

use farmhand_core::due;
use farmhand_store::Db;
use farmhand_store::acting::Acting;
use farmhand_store::jobs::{Backfilled, Listed, backfill, instants_known, ran_instants};
use jiff::Timestamp;

use super::due_now;
use super::jobs::{no_job, spec};
use super::runs::{disabled, may_run, observes};
use crate::{Refusal, moment};

/// Instants looked at by one command.
const LOOKED_AT: usize = 1_000_000;

/// What the schedule says about a stretch of the past.
#[derive(Debug, Default)]
pub struct Plan {
    /// From the first, up to the second, itself not included.
    pub stretch: (Timestamp, Timestamp),
    /// To be run, ascending.
    pub missing: Vec<Timestamp>,
    /// How many runs each of them makes now: of shards, on each node.
    pub each: usize,
    pub ran: usize,
    /// Cron was to run these, while the job observed.
    pub observed: usize,
    pub excluded: usize,
    /// The history of their time is not kept any more: whether they ran is unknown.
    pub forgotten: usize,
    /// The job had another schedule then, and may have run at other instants for them.
    pub rescheduled: usize,
}

impl Plan {
    /// How many runs are to be made.
    /// Errors: 4 when they are more than `max`.
    pub fn count(&self, max: usize) -> Result<usize, Refusal> {
        let count = self.missing.len().saturating_mul(self.each);
        if count <= max {
            return Ok(count);
        }
        let what = format!("{count} runs would be made, more than {max}");
        Err(Refusal::refused(what).next("take a shorter stretch, or raise max"))
    }

    /// The instants that may have been run already and get no run, in words.
    pub fn left_out(&self) -> Vec<String> {
        let say = |n: usize, why: &str| match n {
            0 => None,
            1 => Some(format!("1 instant gets no run: {why}")),
            n => Some(format!("{n} instants get no run: {why}")),
        };
        let forgotten = "whether they ran is unknown, the history of their time is not kept any more";
        let rescheduled = "the job had another schedule then";
        let observed = "the job observed then, and cron was to run it";
        let all = [
            say(self.forgotten, forgotten),
            say(self.rescheduled, rescheduled),
            say(self.observed, observed),
        ];
        all.into_iter().flatten().collect()
    }
}

/// What the schedule says about a stretch of the past; `looking` hears of every thousandth instant.
/// Errors: 2 for times that are none, 4 for a job that must not run or is without instants, and a stretch that has too many.
pub async fn plan(
    db: &Db,
    row: &Listed,
    from: &str,
    to: Option<&str>,
    now: Timestamp,
    mut looking: impl FnMut(usize, Timestamp),
) -> Result<Plan, Refusal> {
    may_run(row)?;
    let of = spec(row)?;
    let (schedule, policy) = due::compile(&row.job_id, &of).map_err(due_now::unusable)?;
    if !schedule.has_instants() {
        return Err(
            Refusal::refused(format!("{} has no instants to make up for", row.job_id))
                .next("`farmhand job run` runs it now"),
        );
    }
    let zone = schedule.timezone();
    let from = moment("--from", from, zone)?;
    let to = match to {
        Some(text) => moment("--to", text, zone)?,
        None => now,
    };
    if to <= from {
        return Err(Refusal::usage("--to is not after --from").next("swap them?"));
    }
    // What is to come is the schedule's own.
    let end = to.min(row.next_run.unwrap_or(now)).min(now);
    let ran = ran_instants(db, &row.job_id, from, to).await?;
    let Some(known) = instants_known(db, &row.job_id).await? else {
        return Err(no_job(db, &row.job_id).await);
    };
    let mut plan = Plan {
        stretch: (from, to),
        // Without a node for it `make` says so.
        each: usize::try_from(known.runs).unwrap_or(usize::MAX).max(1),
        ..Plan::default()
    };
    for (looked, at) in schedule.between(from, end).enumerate() {
        if looked.is_multiple_of(1_000) {
            looking(looked, at);
        }
        if looked == LOOKED_AT {
            return Err(Refusal::refused(format!(
                "more than {LOOKED_AT} instants lie between --from and --to"
            ))
            .next("take a shorter stretch"));
        }
        match due::skipped_at(&policy, at) {
            Some(_) => plan.excluded += 1,
            None if ran.get(&at) == Some(&true) => plan.observed += 1,
            None if ran.contains_key(&at) => plan.ran += 1,
            // Before its first revision nothing of it ran.
            None if at < known.first_applied => plan.missing.push(at),
            None if at < known.kept => plan.forgotten += 1,
            None if at < known.scheduled => plan.rescheduled += 1,
            None => plan.missing.push(at),
        }
    }
    Ok(plan)
}

/// Makes the runs that are missing.
/// Errors: 4 when the job was changed meanwhile, or cannot run.
pub async fn make(acting: &Acting, row: &Listed, plan: &Plan, by: &str) -> Result<Vec<i64>, Refusal> {
    let name = &row.job_id;
    let answer = backfill(acting, name, row.rev, &plan.missing, by).await?;
    let refused = |what: String| Refusal::refused(what);
    match answer {
        Backfilled::Done { run_ids } => Ok(run_ids),
        Backfilled::Changed => {
            Err(refused(format!("{name} was changed meanwhile")).next("look at it, then try again"))
        }
        Backfilled::Disabled => Err(disabled(name)),
        Backfilled::Observes => Err(observes(name)),
        Backfilled::NoNode => Err(
            refused(format!("{name} runs on each node, and no node is ready for it"))
                .next("`farmhand node ls`"),
        ),
        Backfilled::NotFound => Err(no_job(acting.db(), name).await),
    }
}
