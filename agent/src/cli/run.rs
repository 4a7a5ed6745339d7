//! `farmhand run`: what ran, how it ended, what it printed.

use clap::{Args, Subcommand};
use farmhand_common::store::jobs::{self, Cancelled, Retried};
use farmhand_common::store::{Db, query};
use serde_json::json;

use super::follow::{Follow, follow, no_run};
use super::{DatabaseArgs, Exit, Failure, Outcome, completion, items, logs, out, runs};

#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(subcommand)]
    command: RunCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum RunCommand {
    /// The newest runs
    Ls(runs::ListArgs),
    /// One run with all of its attempts
    Show {
        #[arg(add = completion::run_numbers())]
        run: i64,
    },
    /// What a run printed, its stdout on stdout and its stderr on stderr
    Logs(logs::LogArgs),
    /// Lines of a stream that were given up
    Items(items::ItemsArgs),
    /// Run lines of a stream that were given up again, in a new run
    Replay(items::ReplayArgs),
    /// End runs; one that is running gets SIGTERM, and SIGKILL after its grace
    Cancel {
        #[arg(required = true, add = completion::run_numbers())]
        run: Vec<i64>,
        /// Those that were made together with them too: all shards, or the runs of each node
        #[arg(long)]
        firing: bool,
    },
    /// Run a finished run's job again, with its parameters, as a new run
    Retry {
        #[arg(add = completion::run_numbers())]
        run: i64,
        /// Of a flow, only the tasks that did not succeed
        #[arg(long)]
        from_failed: bool,
        #[command(flatten)]
        follow: Follow,
    },
}

pub async fn run(args: &RunArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    match &args.command {
        RunCommand::Ls(list) => runs::list(&db, list, as_json).await,
        RunCommand::Show { run } => runs::show(&db, *run, as_json).await,
        RunCommand::Logs(args) => logs::run(&db, args, as_json).await,
        RunCommand::Items(args) => items::list(&db, args, as_json).await,
        RunCommand::Replay(args) => items::replay(&db, args, as_json).await,
        RunCommand::Cancel { run, firing } => {
            let runs = if *firing {
                together(&db, run).await?
            } else {
                run.clone()
            };
            cancel(&db, &runs, as_json).await
        }
        RunCommand::Retry {
            run,
            from_failed,
            follow: how,
        } => {
            let new = retry(&db, *run, *from_failed).await?;
            follow(&db, new, how, as_json).await
        }
    }
}

async fn retry(db: &Db, run_id: i64, from_failed: bool) -> Result<i64, Failure> {
    match jobs::retry_run(db, run_id, &super::who(), from_failed).await? {
        Retried::Run(new) => Ok(new),
        Retried::RowLive => Err(Failure::new(
            Exit::Refused,
            format!("another run for the row of run {run_id} has not ended"),
        )),
        Retried::NotFinal => Err(Failure::new(Exit::Refused, format!("run {run_id} has not ended"))
            .next(format!("wait for it, or `farmhand run cancel {run_id}` first"))),
        Retried::NotFound => Err(no_run(run_id)),
        Retried::NoJob => Err(Failure::new(
            Exit::Refused,
            format!("the job of run {run_id} has been deleted"),
        )
        .next("apply its definition again")),
    }
}

/// The runs, and those of their firings that have not ended.
async fn together(db: &Db, runs: &[i64]) -> Result<Vec<i64>, Failure> {
    let mut all = runs.to_vec();
    for run_id in runs {
        let row = query::run(db, *run_id).await?.ok_or_else(|| no_run(*run_id))?;
        let others = query::firing(db, row.firing).await?;
        all.extend(
            others
                .iter()
                .filter(|other| !other.state.is_final())
                .map(|other| other.run_id),
        );
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Each run is tried; the exit code is that of the first that could not be cancelled.
async fn cancel(db: &Db, runs: &[i64], as_json: bool) -> Outcome {
    let mut results = Vec::new();
    let mut first_failure = None;
    for run_id in runs {
        let (word, result) = match jobs::cancel(db, *run_id, &super::who()).await? {
            Cancelled::Now => ("cancelled", Ok(format!("{run_id}: cancelled before it started"))),
            Cancelled::Requested { node } => ("requested", Ok(format!("{run_id}: {node} ends it now"))),
            Cancelled::AlreadyFinal(state) => {
                let what = format!("run {run_id} has already ended: {state}");
                ("already_final", Err(Failure::new(Exit::Refused, what)))
            }
            Cancelled::NotFound => ("not_found", Err(no_run(*run_id))),
        };
        results.push(json!({"run_id": run_id, "result": word}));
        match result {
            Err(failure) => {
                out::note(&failure.to_string());
                first_failure.get_or_insert(failure.exit);
            }
            Ok(done) if !as_json => out::line(&done),
            Ok(_) => {}
        }
    }
    if as_json {
        out::json(&results);
    }
    Ok(first_failure.unwrap_or(Exit::Ok))
}
