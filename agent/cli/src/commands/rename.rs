//! Another name for a job: `farmhand job rename`.

use farmhand_store::jobs::{ApplyOutcome, move_runs, rename};
use farmhand_store::{Db, StoreError};
use serde_json::json;

use super::{Exit, Failure, Outcome, out, progress};
use farmhand_control::definitions::prefix_of;
use farmhand_control::{due_now, jobs};
use farmhand_core::definition::check_name;

pub(super) async fn run(db: &Db, former: &str, name: &str, as_json: bool) -> Outcome {
    if let Err(rule) = check_name(name) {
        return Err(Failure::usage(format!("{name} is not a valid job name")).next(rule));
    }
    let source = jobs::one(db, former).await?.source;
    // Files have the names without it.
    let prefix = prefix_of(&source, former);
    let (old, new) = match (former.strip_prefix(prefix), name.strip_prefix(prefix)) {
        (Some(old), Some(new)) => (old, new),
        _ => (former, name),
    };
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
                "in one apply, write renamed_from = \"{old}\" in [job.{new}], and {new} in their triggered_by"
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
        out::note(&match name.starts_with(prefix) {
            true => format!(
                "its file: write [job.{new}] with renamed_from = \"{old}\", or the next apply of it is refused"
            ),
            false => format!(
                "its file is applied with --prefix {prefix}, with which it cannot be {name}: the next apply of it is refused"
            ),
        });
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
