//! `farmhand run`: what ran, how it ended, what it printed.

use clap::{Args, Subcommand};
use farmhand_store::Db;
use farmhand_store::acting::Acting;
use serde_json::json;

use super::bulk::Chosen;
use super::follow::{Follow, follow};
use super::{DatabaseArgs, Exit, Failure, Outcome, act, completion, items, logs, out, runs};
use farmhand_control::actions::Retry;
use farmhand_control::bulk::each_once;
use farmhand_control::runs::together;
use farmhand_control::{Action, BulkAction, By, Many, Refusal, many};

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(subcommand)]
    command: RunCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum RunCommand {
    /// The newest runs
    #[command(alias = "list")]
    Ls(runs::ListArgs),
    /// One run with its attempts
    Show {
        /// Its number; or a job's name, for its newest run
        #[arg(add = completion::run_numbers())]
        run: String,
    },
    /// What a run printed, its stdout on stdout and its stderr on stderr
    #[command(alias = "log")]
    Logs(logs::LogArgs),
    /// Lines of a stream that were given up
    Items(items::ItemsArgs),
    /// Run lines of a stream that were given up again, in a new run
    Replay(items::ReplayArgs),
    #[command(aliases = ["stop", "kill"])]
    /// End runs, by number or by what they have in common; one that is running gets SIGTERM, and SIGKILL after its grace
    Cancel {
        #[arg(required_unless_present = "Chosen", conflicts_with = "Chosen", add = completion::run_numbers())]
        run: Vec<i64>,
        /// Also the rest of their firings: all shards, or the runs of each node
        #[arg(long)]
        firing: bool,
        #[command(flatten)]
        chosen: Option<Chosen>,
    },
    /// Run a finished run's job again, with its parameters, as a new run; or those of many, by default of what failed, timed
    /// out or was lost in the newest such firing of each job, one after the other unless the job says `overlap = "allow"`
    Retry {
        #[arg(required_unless_present = "Chosen", conflicts_with = "Chosen", add = completion::run_numbers())]
        run: Vec<i64>,
        /// Every run that matches, and not only those of the newest firing of each job
        #[arg(long, conflicts_with = "run")]
        all: bool,
        /// Of a flow, only the tasks that did not succeed
        #[arg(long)]
        from_failed: bool,
        #[command(flatten)]
        follow: Follow,
        #[command(flatten)]
        chosen: Option<Chosen>,
    },
}

pub(super) async fn run(args: &RunArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    match &args.command {
        RunCommand::Ls(list) => runs::list(&db, list, as_json).await,
        RunCommand::Show { run } => runs::show(&db, runs::number(&db, run, None).await?, as_json).await,
        RunCommand::Logs(args) => logs::run(&db, args, as_json).await,
        RunCommand::Items(args) => items::list(&db, args, as_json).await,
        RunCommand::Replay(args) => act::run(&db, args.action(), as_json).await,
        RunCommand::Cancel { run, firing, chosen } => {
            let wanted = match chosen {
                Some(chosen) => chosen.confirmed(&db, BulkAction::Cancel, *firing, false).await?,
                None if *firing => named(&together(&db, run).await?),
                None => named(run),
            };
            each(&db, BulkAction::Cancel, &wanted, false, as_json).await
        }
        RunCommand::Retry {
            run,
            from_failed,
            follow: how,
            ..
        } if let [run] = each_once(run)[..] => {
            let from_failed = *from_failed;
            let answer = act::act(&db, Retry { run, from_failed }, None).await?;
            follow(&db, act::made(&answer), how, as_json).await
        }
        RunCommand::Retry {
            all,
            from_failed,
            follow: how,
            chosen,
            run,
        } => {
            if how.is_asked() {
                return Err(
                    Failure::usage("--wait and --follow cannot be used with many runs")
                        .next("run them again without, then `farmhand run ls` shows how they go"),
                );
            }
            let wanted = match chosen {
                Some(chosen) => chosen.confirmed(&db, BulkAction::Retry, false, *all).await?,
                None => named(&each_once(run)),
            };
            each(&db, BulkAction::Retry, &wanted, *from_failed, as_json).await
        }
    }
}

/// The choice of these numbers.
fn named(runs: &[i64]) -> (farmhand_control::Chosen, Vec<i64>) {
    let chosen = farmhand_control::Chosen {
        runs: runs.to_vec(),
        ..farmhand_control::Chosen::default()
    };
    (chosen, runs.to_vec())
}

/// Each run is tried; the exit code is that of the first that could not be cancelled or run again.
async fn each(
    db: &Db,
    bulk: BulkAction,
    (chosen, runs): &(farmhand_control::Chosen, Vec<i64>),
    from_failed: bool,
    as_json: bool,
) -> Outcome {
    let who = super::who();
    let by = By::login(&who);
    let mut results = Vec::new();
    let mut first_failure = None;
    let told = |run_id: i64, result: Result<(i64, String), Refusal>| match result {
        Ok((new, what)) => {
            results.push(match bulk {
                BulkAction::Cancel => json!({"run_id": run_id, "result": "cancelled"}),
                BulkAction::Retry => json!({"run_id": run_id, "result": "retried", "new": new}),
            });
            if !as_json {
                out::line(&what);
            }
        }
        Err(refusal) => {
            let failure = Failure::from(refusal);
            results.push(json!({"run_id": run_id, "result": "refused"}));
            out::notes(&failure.to_string());
            first_failure.get_or_insert(failure.exit);
        }
    };
    let action = Action::from(Many {
        bulk,
        chosen: chosen.clone(),
        from_failed,
    });
    let acting = Acting::begin(db, by.deed(action.word(), action.cli()));
    many::each(&acting, bulk, chosen, runs, from_failed, by, told).await?;
    if as_json {
        out::json(&results);
    }
    Ok(first_failure.unwrap_or(Exit::Ok))
}
