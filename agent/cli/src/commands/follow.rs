//! Waiting for a run, and what its outcome means to a script.

use std::cell::Cell;
use std::time::Duration;

use clap::Args;
use farmhand_core::document::parse_duration;
use farmhand_core::run::RunState;
use farmhand_store::reading::{self, RunRow};
use farmhand_store::{Db, StoreError};
use serde_json::json;

use super::logs::Printer;
use super::progress::Progress;
use super::{Exit, Failure, Outcome, out};
pub(super) use farmhand_control::runs::no_run;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Args, Clone, Debug)]
pub(super) struct Follow {
    /// Wait for the end; the exit code is 0, or 10 failed, 11 timed out, 12 cancelled, 13 skipped
    #[arg(long)]
    wait: bool,
    /// Print the output while waiting
    #[arg(long, conflicts_with = "json")]
    follow: bool,
    /// Wait no longer than this (exit code 124); the run goes on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait_timeout: Option<Duration>,
}

impl Follow {
    pub(crate) fn is_asked(&self) -> bool {
        self.wait || self.follow || self.wait_timeout.is_some()
    }
}

/// Names a run that was just submitted, and waits for it if asked to.
/// Errors: When the database answers with an error; one that is away is waited for.
pub(super) async fn follow(db: &Db, run_id: i64, how: &Follow, as_json: bool) -> Outcome {
    if !how.is_asked() {
        return out::done(as_json, &json!({"run_id": run_id}), &run_id.to_string());
    }
    if how.follow {
        out::note(&format!("run {run_id}"));
    } else if !as_json {
        out::line(&run_id.to_string());
    }
    let mut progress = Progress::default();
    let seen = Cell::new((run_id, RunState::Due));
    let ended = tokio::select! {
        ended = until_all_final(db, run_id, how.follow, &mut progress, &seen) => ended?,
        () = expiry(how.wait_timeout) => {
            progress.clear();
            let (run, is) = still(&seen);
            out::note(&match is {
                "waiting" => format!("run {run} is still waiting; `farmhand explain run {run}` says for what"),
                _ => format!("run {run} is still {is}; `farmhand run show {run}` tells more"),
            });
            return Ok(Exit::WaitExpired);
        }
        _ = tokio::signal::ctrl_c() => {
            progress.clear();
            let (run, is) = still(&seen);
            out::note(&format!("run {run} is still {is}; stop it with `farmhand run cancel {run}`"));
            return Ok(Exit::Interrupted);
        }
    };
    match ended.as_slice() {
        [one] if as_json => out::json(one),
        [one] => out::note(&summary(one)),
        all if as_json => out::json(&json!({"run_id": run_id, "runs": all})),
        all => all.iter().for_each(|one| out::note(&summary(one))),
    }
    // The worst tells: a run that failed before one that was cancelled.
    let worst = |row: &&RunRow| match row.state {
        RunState::Succeeded => 0,
        RunState::Skipped => 1,
        RunState::Cancelled => 2,
        RunState::TimedOut => 3,
        _ => 4,
    };
    Ok(ended
        .iter()
        .max_by_key(worst)
        .map_or(Exit::Ok, |row| exit_of(row.state)))
}

/// The run that was waited for, and what it did when it was last seen.
fn still(seen: &Cell<(i64, RunState)>) -> (i64, &'static str) {
    let (run, state) = seen.get();
    (
        run,
        if state == RunState::Due {
            "waiting"
        } else {
            "running"
        },
    )
}

/// Waits for the run, and, when it is the first of several that were made together, for all of them. Their output comes
/// one after the other's.
async fn until_all_final(
    db: &Db,
    run_id: i64,
    print: bool,
    progress: &mut Progress,
    seen: &Cell<(i64, RunState)>,
) -> Result<Vec<RunRow>, Failure> {
    let printer = |run_id| print.then(|| Printer::all(run_id, false));
    let first = until_final(db, run_id, printer(run_id).as_mut(), progress, seen).await?;
    let firing = first.firing.filter(|firing| *firing == run_id);
    let mut ended = vec![first];
    for other in reading::firing(db, firing).await? {
        if other.run_id != run_id {
            ended.push(until_final(db, other.run_id, printer(other.run_id).as_mut(), progress, seen).await?);
        }
    }
    Ok(ended)
}

/// Looks until the run is final; with a printer, everything it wrote has then been printed. `seen` is how it was last
/// seen.
/// Errors: 3 when there is no such run.
pub(crate) async fn until_final(
    db: &Db,
    run_id: i64,
    mut printer: Option<&mut Printer>,
    progress: &mut Progress,
    seen: &Cell<(i64, RunState)>,
) -> Result<RunRow, Failure> {
    let mut pause = FIRST_PAUSE;
    let mut away = false;
    loop {
        match look(db, run_id, printer.as_deref_mut()).await {
            Ok(Some((row, printed))) => {
                away = false;
                seen.set((run_id, row.state));
                if row.state.is_final() {
                    progress.clear();
                    return Ok(row);
                }
                // Its own output says more.
                if printer.is_none() {
                    progress.say(|elapsed| under_way(&row, elapsed));
                }
                pause = if printed {
                    FIRST_PAUSE
                } else {
                    (pause * 2).min(LONGEST_PAUSE)
                };
            }
            Ok(None) => return Err(no_run(run_id).into()),
            Err(error) if error.is_away() => {
                if !std::mem::replace(&mut away, true) {
                    progress.clear();
                    out::note(&format!("{error}; still waiting for run {run_id}"));
                }
                pause = LONGEST_PAUSE;
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(pause).await;
    }
}

/// The state first, the output after it: once the state is final, the output read then is all there is.
async fn look(
    db: &Db,
    run_id: i64,
    printer: Option<&mut Printer>,
) -> Result<Option<(RunRow, bool)>, StoreError> {
    let Some(row) = reading::run_row(db, run_id).await? else {
        return Ok(None);
    };
    let printed = match printer {
        Some(printer) => printer.print(db, &row).await?,
        None => false,
    };
    Ok(Some((row, printed)))
}

/// Waits this long, or for ever.
pub(super) async fn expiry(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

fn under_way(row: &RunRow, elapsed: Duration) -> String {
    let mut text = format!("run {} is {}", row.run_id, row.state.as_str());
    if let (RunState::Running, Some(node)) = (row.state, &row.running_at) {
        text.push_str(&format!(" on {node}, attempt {}", row.attempt));
    } else if let Some(reason) = &row.reason {
        text.push_str(&format!(" ({reason})"));
    }
    format!("{text}, {}", out::span(elapsed))
}

fn exit_of(state: RunState) -> Exit {
    match state {
        RunState::Succeeded => Exit::Ok,
        RunState::TimedOut => Exit::RunTimedOut,
        RunState::Cancelled => Exit::RunCancelled,
        RunState::Skipped => Exit::RunSkipped,
        RunState::Failed | RunState::Lost | RunState::Due | RunState::Running => Exit::RunFailed,
    }
}

fn summary(row: &RunRow) -> String {
    let mut text = format!("run {} of {} {}", row.run_id, row.job_id, row.state.as_str());
    if let Some(node) = &row.running_at {
        text.push_str(&format!(" on {node}"));
    }
    if let Some(code) = row.exit_code {
        text.push_str(&format!(", exit code {code}"));
    }
    if let Some(signal) = row.signal {
        text.push_str(&format!(", signal {signal}"));
    }
    if let Some(reason) = &row.reason {
        text.push_str(&format!(" ({reason})"));
    }
    text
}
