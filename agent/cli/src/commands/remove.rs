//! `farmhand job rm`: jobs out of the farm, and what waits of them; their history stays.

use farmhand_store::Db;
use farmhand_store::jobs::{Applied, ApplyOutcome, delete, still_begin};
use serde_json::json;

use super::{Exit, Failure, Outcome, act, out, terminal};
use farmhand_control::{due_now, jobs};

pub(super) async fn run(db: &Db, names: &[String], yes: bool, as_json: bool) -> Outcome {
    let (mut running, mut waiting) = (0, 0);
    for name in names {
        running += usize::from(jobs::one(db, name).await?.running_at.is_some());
        waiting += still_begin(db, name).await?;
    }
    confirm(names, (running, waiting), yes)?;
    let acting = act::acting(db, "delete", &format!("job rm {}", names.join(" ")));
    match delete(&acting, names, &super::who()).await? {
        ApplyOutcome::Done { applied, .. } if as_json => out::json(&json!({"deleted": applied})),
        ApplyOutcome::Done { applied, .. } => {
            applied.iter().for_each(|job| out::line(&gone(job)));
        }
        ApplyOutcome::Refused(faults) => {
            let failure = Failure::refused("other jobs are triggered by these; nothing was deleted");
            return Err(faults.iter().fold(failure, |f, fault| f.why(fault)));
        }
        // Of what is to be changed.
        ApplyOutcome::Blocked(_) => return Err(due_now::busy("a job").into()),
    }
    Ok(Exit::Ok)
}

fn gone(job: &Applied) -> String {
    let left = job.left.and_then(|left| jobs::left(left.withdrawn, left.running));
    format!(
        "- {}{}",
        job.job_id,
        left.map_or_else(String::new, |left| format!("  {left}"))
    )
}

fn confirm(names: &[String], live: (usize, i64), yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let running = match live.0 {
        0 => None,
        1 => Some("1 running now, which goes on".to_owned()),
        n => Some(format!("{n} running now, which go on")),
    };
    let waiting = match live.1 {
        0 => None,
        1 => Some("1 waiting, which is withdrawn".to_owned()),
        // Of each job a thousand are counted.
        n if n >= 1_000 => Some(format!("{n} or more waiting, which are withdrawn")),
        n => Some(format!("{n} waiting, which are withdrawn")),
    };
    let live: Vec<String> = running.into_iter().chain(waiting).collect();
    let what = match live.is_empty() {
        true => names.join(", "),
        false => format!("{} ({})", names.join(", "), live.join("; ")),
    };
    let unasked = Failure::refused(format!("this would delete {what}; nothing was deleted"));
    let question = format!("Delete {what}? Their history stays.");
    terminal::agree(&question, "nothing was deleted", unasked.next("add --yes"))
}
