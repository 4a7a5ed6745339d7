//! Many runs are cancelled, in sets, or run again, each by itself; one event tells of them.

use std::collections::BTreeSet;

use farmhand_core::run::RunState;
use farmhand_store::acting::Acting;
use farmhand_store::event::EventKind;
use farmhand_store::jobs::{self, Wish};
use farmhand_store::{Db, StoreError};
use serde_json::json;

use crate::actions::Many;
use crate::bulk::counted;
use crate::choice::{BulkAction, Chosen, Picked};
use crate::{Answer, By, Refusal, jobs as job, runs};

/// Cancels or retries each of these runs. Of several tells one event, written before the first of them is touched; a run
/// by itself has the event of its own. `told` hears what became of each: the run that was cancelled or made and a
/// sentence, or why it was not.
pub async fn each(
    acting: &Acting,
    bulk: BulkAction,
    chosen: &Chosen,
    runs: &[i64],
    from_failed: bool,
    by: By<'_>,
    mut told: impl FnMut(i64, Result<(i64, String), Refusal>),
) -> Result<(), Refusal> {
    let many = runs.len() > 1;
    if many {
        tell(acting, bulk, chosen, runs, by.who).await?;
    }
    // What waits for its turn is run in the order of its time.
    let mut runs = runs.to_vec();
    if bulk == BulkAction::Retry {
        runs.sort_unstable();
    }
    let mut done = 0;
    let at_once = match bulk {
        BulkAction::Cancel => SET,
        BulkAction::Retry => 1,
    };
    for set in runs.chunks(at_once) {
        let results = match bulk {
            BulkAction::Cancel => cancel(acting, set, many, by.who).await,
            BulkAction::Retry => retry(acting, set, many, from_failed, by).await,
        };
        for (run, result) in results.map_err(|error| stopped(bulk, done, runs.len(), error))? {
            done += usize::from(result.is_ok());
            told(run, result);
        }
    }
    Ok(())
}

/// Runs that are cancelled in one transaction.
const SET: usize = 1_000;

/// What became of each: the run that was cancelled or made and a sentence, or why it was not.
type Results = Vec<(i64, Result<(i64, String), Refusal>)>;

async fn tell(
    acting: &Acting,
    bulk: BulkAction,
    chosen: &Chosen,
    runs: &[i64],
    who: &str,
) -> Result<(), Refusal> {
    let kind = match bulk {
        BulkAction::Cancel => EventKind::CancelMany,
        BulkAction::Retry => EventKind::RetryMany,
    };
    let options = chosen.options();
    let filter = options.trim().strip_suffix(" --yes");
    let detail = json!({"by": who, "runs": runs.len(), "chosen": filter, "numbers": numbers(runs)});
    Ok(jobs::tell_many(acting, kind, chosen.job.as_deref(), &detail).await?)
}

async fn cancel(acting: &Acting, set: &[i64], many: bool, who: &str) -> Result<Results, StoreError> {
    let outcomes = jobs::cancel_set(acting, set, who, many).await?.into_iter();
    let told = |(run, outcome)| (run, runs::cancelled(run, outcome).map(|what| (run, what)));
    Ok(outcomes.map(told).collect())
}

async fn retry(
    acting: &Acting,
    set: &[i64],
    many: bool,
    from_failed: bool,
    by: By<'_>,
) -> Result<Results, StoreError> {
    let wish = Wish {
        by: by.who,
        from_failed,
        once: by.once,
        told: many,
        queued: true,
    };
    let mut results = Vec::new();
    for run in set.iter().copied() {
        let retried = jobs::retry_one(acting, run, wish).await?;
        let told = |new| (new, format!("run {run} is run again as run {new}"));
        results.push((run, runs::again(run, retried).map(told)));
    }
    Ok(results)
}

/// The database failed after so many of them.
fn stopped(bulk: BulkAction, done: usize, of: usize, error: StoreError) -> Refusal {
    let done = match bulk {
        BulkAction::Cancel => {
            format!("{done} of {of} runs had been cancelled; the same again cancels the rest")
        }
        BulkAction::Retry => format!(
            "{done} of {of} runs had been run again: look at the newest runs before you choose the rest"
        ),
    };
    Refusal::from(error).why(done)
}

/// Most runs of one request, which is answered within the time that a client waits: those that are cancelled are so in sets, and
/// of more the newest first.
const fn most(bulk: BulkAction) -> usize {
    match bulk {
        BulkAction::Cancel => 10 * SET,
        BulkAction::Retry => 1_000,
    }
}

/// Does it to each of them; those that do not allow it any more are counted.
/// Errors: As [`Chosen::find`].
pub(crate) async fn perform(
    acting: &Acting,
    action: &Many,
    by: By<'_>,
    commit: bool,
) -> Result<Answer, Refusal> {
    let db = acting.db();
    let Many {
        bulk,
        chosen,
        from_failed,
    } = action;
    let (bulk, from_failed) = (*bulk, *from_failed);
    let mut found = chosen.find(db, bulk, most(bulk), by.once).await?;
    let left_out = found.left_out();
    let beyond = found.take_beyond(by);
    // Of those that are named none may be missing from what is done.
    if let Some(run) = beyond.first().filter(|_| !chosen.runs.is_empty()) {
        by.reaches(&run.job_id)?;
    }
    // What ended, or has not ended, since it was ticked.
    let (items, others): (Vec<_>, Vec<_>) =
        (found.runs.into_iter()).partition(|run| run.state.is_final() == (bulk == BulkAction::Retry));
    let (items, stopped) = match bulk {
        BulkAction::Retry => runnable(db, items).await?,
        BulkAction::Cancel => (items, Vec::new()),
    };
    if items.is_empty() && !beyond.is_empty() {
        return Ok(format!(
            "{} match, which you may not act on; there is nothing to do",
            counted(&beyond)
        )
        .into());
    }
    let also = left_out.map_or_else(String::new, |text| format!("; {text}"));
    let more = if found.more {
        "; more match: the same again goes on with them"
    } else {
        ""
    };
    if items.is_empty() {
        return Ok(format!("no run matches; there is nothing to do{also}").into());
    }
    let of = counted(&items);
    let unsure = items
        .iter()
        .filter(|run| matches!(run.state, RunState::Succeeded | RunState::Lost));
    let unsure = unsure.count();
    let twice = (bulk == BulkAction::Retry && unsure > 0)
        .then(|| format!("{unsure} of them succeeded or were lost: what they did may be done again"));
    let (mut done, mut refused) = (Vec::new(), others.len() + stopped.len());
    if commit {
        let numbers: Vec<i64> = items.iter().map(|run| run.run_id).collect();
        let told = |_, result: Result<(i64, String), Refusal>| match result {
            Ok((run, _)) => done.push(run),
            Err(_) => refused += 1,
        };
        each(acting, bulk, chosen, &numbers, from_failed, by, told).await?;
    }
    let mut what = match (bulk, commit) {
        (BulkAction::Cancel, false) => format!(
            "{of} end: what waits does not start, what runs gets SIGTERM, and SIGKILL after its grace"
        ),
        (BulkAction::Retry, false) => format!(
            "{of} are run again, with their parameters, as new runs; those of one job one after the other, unless it says `overlap = \"allow\"`"
        ),
        (BulkAction::Cancel, true) => format!("{of}: {} cancelled", done.len()),
        (BulkAction::Retry, true) => format!("{of}: {} run again", done.len()),
    };
    if !beyond.is_empty() {
        what.push_str(&format!("; not {}, which you may not act on", counted(&beyond)));
    }
    what.push_str(&also);
    if refused > 0 {
        what.push_str(&format!("; {refused} could not be, because of how they are now"));
    }
    what.push_str(more);
    Ok(Answer {
        what,
        twice,
        runs: done,
        chosen: if commit { Vec::new() } else { items },
        ..Answer::default()
    })
}

/// Those whose jobs may run, and the others.
async fn runnable(db: &Db, items: Vec<Picked>) -> Result<(Vec<Picked>, Vec<Picked>), Refusal> {
    let jobs: BTreeSet<&str> = items.iter().map(|run| run.job_id.as_str()).collect();
    let (mut stopped, mut why) = (BTreeSet::new(), None);
    for name in &jobs {
        match job::one(db, name).await.and_then(|row| runs::may_run(&row)) {
            Err(refusal) if refusal.cause().is_none() => {
                stopped.insert((*name).to_owned());
                why.get_or_insert(refusal);
            }
            answer => answer?,
        }
    }
    match why {
        Some(refusal) if stopped.len() == jobs.len() => Err(refusal),
        _ => Ok(items.into_iter().partition(|run| !stopped.contains(&run.job_id))),
    }
}

/// Longest text of the numbers in an event; the runs themselves say by whom they were cancelled or made.
const NUMBERS: usize = 2_000;

/// `3-7, 9`, and how many more when it would be too long.
fn numbers(runs: &[i64]) -> String {
    let mut stretches: Vec<(i64, i64)> = Vec::new();
    for run in runs.iter().copied().collect::<BTreeSet<i64>>() {
        match stretches.last_mut() {
            Some((_, last)) if *last + 1 == run => *last = run,
            _ => stretches.push((run, run)),
        }
    }
    let (mut text, mut left) = (String::new(), runs.len());
    for (first, last) in stretches {
        if text.len() > NUMBERS {
            return format!("{text} and {left} more");
        }
        let comma = if text.is_empty() { "" } else { ", " };
        text += &match first == last {
            true => format!("{comma}{first}"),
            false => format!("{comma}{first}-{last}"),
        };
        left = left.saturating_sub(usize::try_from(last - first + 1).unwrap_or(0));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_runs_are_told_as_stretches_and_bounded() {
        assert_eq!(numbers(&[9, 3, 4, 5, 7]), "3-5, 7, 9");
        assert_eq!(numbers(&(1..=1_000).rev().collect::<Vec<_>>()), "1-1000");
        let scattered: Vec<i64> = (0..1_000).map(|n| 1_000_000_000 + 2 * n).collect();
        let told = numbers(&scattered);
        assert!(told.len() < NUMBERS + 50, "{}", told.len());
        let named = told.matches(", ").count() + 1;
        assert!(told.ends_with(&format!(" and {} more", 1_000 - named)), "{told}");
    }
}
