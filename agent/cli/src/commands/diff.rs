//! `farmhand job diff` and `rollback`: what differs between definitions, and back to an earlier one.

use std::path::PathBuf;

use clap::Args;
use farmhand_control::definitions::{Diff, Files, Of, Present, Wanted, between, changed, store, value_of};
use farmhand_control::{By, jobs as found};
use farmhand_store::acting::{Acting, Deed};
use farmhand_store::jobs::{self, Change, Scope};
use farmhand_store::reading::{self, RevisionItem};
use farmhand_store::{Db, signatures};
use serde_json::json;

use super::apply::{request, sign_of};
use super::job_files::{load, refuse};
use super::{Exit, Failure, Outcome, completion, job_files, out};

/// Revisions looked through.
const REVISIONS: i64 = 10_000;

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

fn find<'a>(name: &str, revisions: &'a [RevisionItem], rev: i64) -> Result<&'a RevisionItem, Failure> {
    revisions.iter().find(|r| r.rev == rev).ok_or_else(|| {
        Failure::not_found(format!("{name} has no revision {rev}"))
            .next("`farmhand job show` lists the revisions")
    })
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

/// The earlier definition is applied like any other: history only grows.
pub(super) async fn rollback(db: &Db, args: &RollbackArgs, as_json: bool) -> Outcome {
    let row = found::one(db, &args.name).await?;
    let revisions = jobs::revisions(db, &args.name, REVISIONS).await?;
    let revision = find(&args.name, &revisions, args.rev)?;
    let spec = serde_json::from_value(revision.spec.clone()).map_err(|error| {
        Failure::refused(format!("revision {} cannot be read", args.rev))
            .why(error)
            .next("a newer version may have applied it: use that one")
    })?;
    let diff = between(Of::JobId(args.name.clone()), &row.spec, &value_of(&spec));
    if !as_json {
        show(&diff);
    }
    let changes = !diff.keys.is_empty();
    if changes
        && !signatures::signatures(db, &[(row.job_id.clone(), row.rev)])
            .await?
            .is_empty()
    {
        out::note(
            "the present revision is signed and a rollback is not: nodes with trusted keys will refuse it. \
             Sign the older file again and apply that instead",
        );
    }
    if changes && !args.dry_run {
        let wanted = Wanted {
            name: args.name.clone(),
            spec,
            source: format!("rollback to revision {}, from {}", args.rev, revision.source),
            // An old signature would be refused as such: whoever vouches for this must sign again.
            signed: None,
        };
        let who = super::who();
        let deed = Deed {
            job_id: Some(wanted.name.clone()),
            ..Deed::of(&who, "rollback", format!("farmhand job rollback {}", wanted.name))
        };
        store(&Acting::begin(db, deed), &[wanted], None, Scope::default(), &who).await?;
    }
    let now = found::one(db, &args.name).await?;
    if as_json {
        out::json(
            &json!({"job_id": args.name, "rev": now.rev, "applied": changes && !args.dry_run, "keys": diff.keys}),
        );
    } else {
        out::note(&match (changes, args.dry_run) {
            (false, _) => format!("{} is as revision {} already", args.name, args.rev),
            (true, true) => "nothing was applied: --dry-run".to_owned(),
            (true, false) => format!("{}: revision {} is as revision {}", args.name, now.rev, args.rev),
        });
    }
    Ok(Exit::Ok)
}
