//! Another name for a job: `farmhand job rename`.

use farmhand_store::jobs::{ApplyOutcome, move_runs, rename};
use farmhand_store::{Db, StoreError};
use serde_json::json;

use super::{Exit, Failure, Outcome, out, progress};
use farmhand_control::{due_now, jobs};
use farmhand_core::definition::check_name;

pub(super) async fn run(db: &Db, former: &str, name: &str, as_json: bool) -> Outcome {
    if let Err(rule) = check_name(name) {
        return Err(Failure::usage(format!("{name} is not a valid job name")).next(rule));
    }
    jobs::one(db, former).await?;
    let mut outcome = rename(db, former, name, &super::who()).await?;
    if let ApplyOutcome::Blocked(_) = outcome {
        due_now::fire_overdue(db, &[former.to_owned()]).await?;
        outcome = rename(db, former, name, &super::who()).await?;
    }
    match outcome {
        ApplyOutcome::Blocked(_) => return Err(due_now::busy(former).into()),
        ApplyOutcome::Done { applied, .. } if applied.is_empty() => {
            return Err(jobs::no_job(db, former).await.into());
        }
        ApplyOutcome::Done { .. } => {}
        ApplyOutcome::Refused(faults) => {
            let failure = Failure::new(
                Exit::Refused,
                format!("other jobs are triggered by {former}; nothing was renamed"),
            );
            let failure = faults.iter().fold(failure, |f, fault| f.why(fault));
            return Err(failure.next(format!(
                "in one apply, write renamed_from = \"{former}\" in [job.{name}], and {name} in their triggered_by"
            )));
        }
    }
    let runs = progress::during("moving its runs", move_all(db)).await?;
    if as_json {
        out::json(&json!({"renamed_from": former, "job_id": name, "runs": runs}));
    } else {
        out::line(&format!(
            "{former} is {name} now; {runs} of its runs have the new name"
        ));
        out::note(&format!(
            "its file: write [job.{name}] with renamed_from = \"{former}\", or the next apply of it is refused"
        ));
    }
    Ok(Exit::Ok)
}

/// All ended runs that still have a former name; agents move what this leaves.
pub(super) async fn move_all(db: &Db) -> Result<i64, StoreError> {
    let mut all = 0;
    loop {
        match move_runs(db).await? {
            0 => return Ok(all),
            moved => all += moved,
        }
    }
}
