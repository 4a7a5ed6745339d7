//! `farmhand job diff` and `rollback`: what differs between definitions, and back to an earlier one.

use std::path::PathBuf;

use clap::Args;
use farmhand_control::actions::Rollback;
use farmhand_control::definitions::{Diff, Files, Of, Present, changed};
use farmhand_control::{By, jobs as found};
use farmhand_store::jobs::Change;
use farmhand_store::{Db, reading};

use super::apply::{request, sign_of};
use super::job_files::{load, refuse};
use super::{Exit, Failure, Outcome, act, completion, job_files, out};

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// Job files or directories: what applying them would change
    #[arg(required_unless_present = "job", conflicts_with = "job")]
    path: Vec<PathBuf>,
    #[command(flatten)]
    environment: job_files::EnvironmentArgs,
    /// A job, whose revisions are compared
    #[arg(long, value_name = "NAME", add = completion::job_names())]
    job: Option<String>,
    /// The older revision [default: the one before --to]
    #[arg(long, value_name = "REV", requires = "job")]
    from: Option<i64>,
    /// The newer revision [default: the present one]
    #[arg(long, value_name = "REV", requires = "job")]
    to: Option<i64>,
    /// Also what `job apply --prune` would delete
    #[arg(long, conflicts_with = "job")]
    prune: bool,
    /// The source that the files would be applied as
    #[arg(long, value_name = "NAME", conflicts_with = "job")]
    source: Option<String>,
    /// As `job apply --take-over`: jobs that another source defines are not refused
    #[arg(long, conflicts_with = "job")]
    take_over: bool,
    /// End with exit code 14 if there is a difference
    #[arg(long)]
    exit_code: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RollbackArgs {
    #[arg(add = completion::job_names())]
    name: String,
    /// As `farmhand job show` lists them
    rev: i64,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(db: &Db, args: &DiffArgs, as_json: bool) -> Outcome {
    let differs = match &args.job {
        Some(name) => of_revisions(db, name, args, as_json).await?,
        None => {
            let diffs = of_files(db, args, as_json).await?;
            if as_json {
                out::json(&diffs);
            } else {
                diffs.iter().for_each(show);
            }
            diffs.iter().any(|diff| diff.change != Change::Unchanged)
        }
    };
    if !as_json && !differs {
        out::note("no difference");
    }
    Ok(if differs && args.exit_code {
        Exit::Differs
    } else {
        Exit::Ok
    })
}

async fn of_files(db: &Db, args: &DiffArgs, as_json: bool) -> Result<Vec<Diff>, Failure> {
    let (name, prefix) = (args.source.as_deref(), &args.environment.prefix);
    let request = request(&args.path, name, prefix, args.prune, args.take_over)?;
    let who = super::who();
    let by = By::login(&who);
    let present = Present::read(db, by).await?;
    let (sources, all) = load(&args.path, &args.environment, as_json)?;
    present
        .check_triggers(&sources, &all, &request)
        .map_err(|mistakes| refuse(&mistakes, as_json))?;
    Ok(present
        .plan(db, Files::of(&sources, all), request, by)
        .await?
        .diffs)
}

/// Shows what differs between two revisions, and says whether anything does.
async fn of_revisions(db: &Db, name: &str, args: &DiffArgs, as_json: bool) -> Result<bool, Failure> {
    let Some(diff) = reading::diff(db, name, args.from, args.to).await? else {
        found::known(db, name).await?;
        return Err(Failure::not_found(format!("{name} has no such two revisions"))
            .next("`farmhand job show` lists the revisions"));
    };
    let differs = !diff.keys.is_empty();
    if as_json {
        out::json(&diff);
    } else {
        show(&changed(Of::JobId(diff.job_id), diff.keys));
    }
    Ok(differs)
}

fn show(diff: &Diff) {
    if diff.change != Change::Unchanged {
        out::line(&format!("{} {}", sign_of(diff.change), diff.of));
    }
    for (key, change) in &diff.keys {
        out::line(&format!("  - {key} = {}", change.old));
        out::line(&format!("  + {key} = {}", change.new));
    }
}

pub(super) async fn rollback(db: &Db, args: &RollbackArgs, as_json: bool) -> Outcome {
    let action = Rollback {
        job: args.name.clone(),
        rev: args.rev,
    };
    let answer = match args.dry_run {
        true => act::preview(db, &action.into()).await?,
        false => act::act(db, action, None).await?,
    };
    if !as_json {
        answer.diff.iter().for_each(show);
    }
    act::done(&answer, as_json)
}
