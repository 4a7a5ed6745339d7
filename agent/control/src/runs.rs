//! Runs: found, retried.

use farmhand_store::acting::Acting;
use farmhand_store::jobs::{Cancelled, Listed, Retried};
use farmhand_store::streams::{self, Replayed};
use farmhand_store::{Db, reading};

use crate::actions::Replay;
use crate::{Answer, Refusal};

/// There is no run of that number.
pub fn no_run(run_id: i64) -> Refusal {
    Refusal::not_found(format!("there is no run {run_id}"))
        .why("it never existed, its history has expired, or it was a round of a continuous job whose success was merged into a later one's")
        .next("`farmhand run ls` shows the newest runs")
}

/// Whether a run of the job may be made, for previews: what makes it checks the same.
/// Errors: 4 for a job that is disabled or observes.
pub(crate) fn may_run(row: &Listed) -> Result<(), Refusal> {
    match row {
        Listed { enabled: false, .. } => Err(disabled(&row.job_id)),
        Listed { observe: true, .. } => Err(observes(&row.job_id)),
        _ => Ok(()),
    }
}

/// The job must not run.
pub fn disabled(job: &str) -> Refusal {
    Refusal::refused(format!("{job} is not enabled")).next("apply it with enabled = true")
}

/// Nothing of the job is executed.
pub fn observes(job: &str) -> Refusal {
    Refusal::refused(format!("{job} observes: nothing of it is executed"))
        .next("take `observe` out of its job file and apply it")
}

/// The run must end first.
pub fn not_final(run_id: i64) -> Refusal {
    Refusal::refused(format!("run {run_id} has not ended"))
        .next(format!("wait for it, or `farmhand run cancel {run_id}` first"))
}

/// What becomes of a run that is cancelled.
/// Errors: 3 when there is no such run, 4 when it has ended.
pub(crate) fn cancelled(run_id: i64, outcome: Cancelled) -> Result<String, Refusal> {
    match outcome {
        Cancelled::Now => Ok(format!("run {run_id} is cancelled before it starts")),
        Cancelled::Requested { node } => Ok(format!(
            "run {run_id}: {node} ends it, by SIGTERM, and SIGKILL after its grace"
        )),
        Cancelled::Held => Ok(format!(
            "run {run_id} is cancelled when it is freed: the session of its node has ended"
        )),
        Cancelled::AlreadyFinal(state) => Err(Refusal::refused(format!(
            "run {run_id} has already ended: {state}"
        ))),
        Cancelled::NotFound => Err(no_run(run_id)),
    }
}

/// The number of the new run.
pub(crate) fn again(run_id: i64, retried: Retried) -> Result<i64, Refusal> {
    match retried {
        Retried::Run(new) => Ok(new),
        Retried::RowLive => Err(Refusal::refused(format!(
            "another run for the row of run {run_id} has not ended"
        ))),
        Retried::NoLines => Err(Refusal::refused(format!(
            "run {run_id} replayed lines, and none of them is left"
        ))
        .next(format!("`farmhand run items {run_id}` says what became of each"))),
        Retried::NotFinal => Err(not_final(run_id)),
        Retried::NotFound => Err(no_run(run_id)),
        Retried::Disabled => Err(disabled(&format!("the job of run {run_id}"))),
        Retried::Observes => Err(observes(&format!("the job of run {run_id}"))),
        Retried::Unfit(why) => Err(Refusal::refused(format!(
            "run {run_id} cannot be run again with its parameters: {why}"
        ))),
        Retried::NoJob => Err(
            Refusal::refused(format!("the job of run {run_id} has been deleted"))
                .next("apply its definition again"),
        ),
    }
}

/// The runs, and those of their firings that have not ended.
/// Errors: 3 when there is no such run.
pub async fn together(db: &Db, runs: &[i64]) -> Result<Vec<i64>, Refusal> {
    let mut all = Vec::new();
    for run_id in runs {
        let row = reading::run_row(db, *run_id)
            .await?
            .ok_or_else(|| no_run(*run_id))?;
        let others = reading::firing(db, row.firing).await?;
        let before = all.len();
        all.extend(
            others
                .iter()
                .filter(|other| !other.state.is_final())
                .map(|other| other.run_id),
        );
        // One that has ended is left out for the others of its firing; without any it is refused.
        if all.len() == before || !row.state.is_final() {
            all.push(*run_id);
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Runs lines again in as many runs as it takes: the lines of one go through its standard input.
/// Errors: 3 when there is no such run, 4 when none of the lines is left or the job makes no runs.
pub(crate) async fn replay(
    acting: &Acting,
    action: &Replay,
    by: &str,
    commit: bool,
) -> Result<Answer, Refusal> {
    let Replay { run, items } = action;
    if !commit {
        reading::run_row(acting.db(), *run)
            .await?
            .ok_or_else(|| no_run(*run))?;
        return Ok(format!("what is left of the lines that run {run} gave up is run again").into());
    }
    let only = Some(items.as_slice()).filter(|only| !only.is_empty());
    let (mut runs, mut texts) = (Vec::new(), Vec::new());
    loop {
        match streams::replay_items(acting, *run, by, only).await? {
            Replayed::Run { run_id, items } => {
                runs.push(run_id);
                texts.push(format!("run {run_id} replays {items} lines"));
            }
            Replayed::Nothing if !runs.is_empty() => break,
            Replayed::Nothing => {
                let refusal = Refusal::refused(format!("no such line of run {run} is left to be replayed"));
                return Err(refusal
                    .why("a line is replayed once, and one that no command could be given never is")
                    .next(format!(
                        "`farmhand run items {run}` says which run has replayed what"
                    )));
            }
            Replayed::NotFound => return Err(no_run(*run)),
            Replayed::Disabled => return Err(disabled(&format!("the job of run {run}"))),
            Replayed::Observes => return Err(observes(&format!("the job of run {run}"))),
            Replayed::NoStream => {
                let what = format!("the job of run {run} is not a stream, or has been deleted");
                return Err(Refusal::refused(what).next("apply its definition again"));
            }
        }
    }
    Ok(Answer {
        what: texts.join("; "),
        runs,
        ..Answer::default()
    })
}
