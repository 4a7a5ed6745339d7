//! `farmhand job diff` and `rollback`: what differs between definitions, and back to an earlier one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use farmhand_core::definition::{Change, changes};
use farmhand_store::jobs::{self, Revision, Scope};
use farmhand_store::{Db, signatures};
use serde::Serialize;
use serde_json::{Value, json};

use super::apply::{Wanted, read_files, store, value_of};
use super::{Exit, Failure, Outcome, completion, out};
use farmhand_control::jobs as found;

/// Revisions looked through.
const REVISIONS: i64 = 10_000;

#[derive(Args, Debug)]
pub struct DiffArgs {
    /// Job files or directories: what applying them would change
    #[arg(required_unless_present = "job", conflicts_with = "job")]
    path: Vec<PathBuf>,
    /// A job, whose revisions are compared
    #[arg(long, value_name = "NAME", add = completion::job_names())]
    job: Option<String>,
    /// The older revision [default: the one before --to]
    #[arg(long, value_name = "REV", requires = "job")]
    from: Option<i64>,
    /// The newer revision [default: the present one]
    #[arg(long, value_name = "REV", requires = "job")]
    to: Option<i64>,
}

#[derive(Args, Debug)]
pub struct RollbackArgs {
    #[arg(add = completion::job_names())]
    name: String,
    /// As `farmhand job show` lists them
    rev: i64,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Serialize)]
struct Diff {
    job_id: String,
    /// No definition before.
    created: bool,
    keys: BTreeMap<String, Change>,
}

pub async fn run(db: &Db, args: &DiffArgs, as_json: bool) -> Outcome {
    let diffs = match &args.job {
        Some(name) => vec![of_revisions(db, name, args).await?],
        None => of_files(db, &args.path, as_json).await?,
    };
    if as_json {
        out::json(&diffs);
    } else {
        diffs.iter().for_each(show);
        if diffs.iter().all(|diff| !diff.created && diff.keys.is_empty()) {
            out::note("no difference");
        }
    }
    Ok(Exit::Ok)
}

async fn of_files(db: &Db, paths: &[PathBuf], as_json: bool) -> Result<Vec<Diff>, Failure> {
    let wanted = read_files(paths, as_json)?.jobs;
    let present: BTreeMap<String, Value> = (found::all(db).await?.into_iter())
        .map(|row| (row.job_id, row.spec))
        .collect();
    let diff = |job: &Wanted| match present.get(&job.name) {
        Some(old) => between(&job.name, old, &value_of(&job.spec)),
        None => Diff {
            job_id: job.name.clone(),
            created: true,
            keys: BTreeMap::new(),
        },
    };
    Ok(wanted.iter().map(diff).collect())
}

async fn of_revisions(db: &Db, name: &str, args: &DiffArgs) -> Result<Diff, Failure> {
    let revisions = jobs::revisions(db, name, REVISIONS).await?;
    let Some(newest) = revisions.first() else {
        return Err(found::no_job(db, name).await.into());
    };
    let to = find(name, &revisions, args.to.unwrap_or(newest.rev))?;
    let from = match args.from {
        Some(rev) => find(name, &revisions, rev)?,
        None => (revisions.iter().find(|r| r.rev < to.rev)).ok_or_else(|| {
            Failure::new(
                Exit::NotFound,
                format!("{name} has no revision before {}", to.rev),
            )
            .next("`farmhand job show` lists the revisions")
        })?,
    };
    Ok(between(name, &from.spec, &to.spec))
}

fn find<'a>(name: &str, revisions: &'a [Revision], rev: i64) -> Result<&'a Revision, Failure> {
    revisions.iter().find(|r| r.rev == rev).ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("{name} has no revision {rev}"))
            .next("`farmhand job show` lists the revisions")
    })
}

fn between(name: &str, old: &Value, new: &Value) -> Diff {
    Diff {
        job_id: name.to_owned(),
        created: false,
        keys: changes(old, new),
    }
}

fn show(diff: &Diff) {
    if diff.created {
        out::line(&format!("+ {}", diff.job_id));
    } else if !diff.keys.is_empty() {
        out::line(&format!("~ {}", diff.job_id));
    }
    for (key, change) in &diff.keys {
        out::line(&out::printable(&format!("  - {key} = {}", change.old)));
        out::line(&out::printable(&format!("  + {key} = {}", change.new)));
    }
}

/// The earlier definition is applied like any other: history only grows.
pub async fn rollback(db: &Db, args: &RollbackArgs, as_json: bool) -> Outcome {
    let row = found::one(db, &args.name).await?;
    let revisions = jobs::revisions(db, &args.name, REVISIONS).await?;
    let revision = find(&args.name, &revisions, args.rev)?;
    let spec = serde_json::from_value(revision.spec.clone()).map_err(|error| {
        Failure::new(Exit::Refused, format!("revision {} cannot be read", args.rev))
            .why(error)
            .next("a newer version may have applied it: use that one")
    })?;
    let diff = between(&args.name, &row.spec, &value_of(&spec));
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
        store(db, &[wanted], None, Scope::default()).await?;
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
