//! `farmhand job rm`: jobs out of the farm, their history left.

use farmhand_store::Db;
use farmhand_store::jobs::{ApplyOutcome, delete, still_begin};
use serde_json::json;

use super::{Exit, Failure, Outcome, out, terminal};
use farmhand_control::{due_now, jobs};

pub(super) async fn run(db: &Db, names: &[String], yes: bool, as_json: bool) -> Outcome {
    let (mut running, mut waiting) = (0, 0);
    for name in names {
        running += usize::from(jobs::one(db, name).await?.running_at.is_some());
        waiting += still_begin(db, name).await?;
    }
    confirm(names, (running, waiting), yes)?;
    match delete(db, names, &super::who()).await? {
        ApplyOutcome::Done { applied, .. } if as_json => out::json(&json!({"deleted": applied})),
        ApplyOutcome::Done { applied, .. } => {
            applied
                .iter()
                .for_each(|job| out::line(&format!("- {}", job.job_id)));
        }
        ApplyOutcome::Refused(faults) => {
            let failure = Failure::new(
                Exit::Refused,
                "other jobs are triggered by these; nothing was deleted",
            );
            return Err(faults.iter().fold(failure, |f, fault| f.why(fault)));
        }
        // Of what is to be changed.
        ApplyOutcome::Blocked(_) => return Err(due_now::busy("a job").into()),
    }
    Ok(Exit::Ok)
}

fn confirm(names: &[String], live: (usize, i64), yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let what = match live {
        (0, 0) => names.join(", "),
        (n, 0) => format!("{} ({n} running now; their runs go on)", names.join(", ")),
        (n, waiting) => format!(
            "{} ({n} running now; their runs go on, and {waiting} runs that wait still begin)",
            names.join(", ")
        ),
    };
    let unasked = Failure::new(
        Exit::Refused,
        format!("this would delete {what}; nothing was deleted"),
    );
    let question = format!("Delete {what}? Their history stays.");
    terminal::agree(&question, "nothing was deleted", unasked.next("add --yes"))
}
