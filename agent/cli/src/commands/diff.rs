//! `farmhand job diff` and `rollback`: what differs between definitions, and back to an earlier one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use farmhand_core::definition::{Change, changes};
use farmhand_store::jobs::{self, Scope};
use farmhand_store::reading::{self, RevisionItem, every};
use farmhand_store::{Db, notify, restrictions, signatures};
use serde::Serialize;
use serde_json::{Value, json};

use super::apply::store;
use super::apply_plan::{Kind, Of, plan_pools, plan_targets, shared_pools, shared_targets};
use super::apply_source::{check_shared, check_sources, sources};
use super::job_files::{Wanted, read_files, value_of};
use super::notify::without_path;
use super::rename::renames;
use super::{Exit, Failure, Outcome, completion, job_files, out};
use farmhand_control::jobs as found;

/// Revisions looked through.
const REVISIONS: i64 = 10_000;

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// Job files or directories: what applying them would change
    #[arg(required_unless_present = "job", conflicts_with = "job")]
    path: Vec<PathBuf>,
    #[command(flatten)]
    set: job_files::SetArgs,
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

#[derive(Debug, Serialize)]
struct Diff {
    #[serde(flatten)]
    of: Of,
    change: Kind,
    keys: BTreeMap<String, Change>,
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
            diffs.iter().any(|diff| diff.change != Kind::Unchanged)
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
    let names = sources(&args.path, args.source.as_deref(), args.prune)?;
    let own = restrictions::own(db).await?;
    let scope = Scope {
        sources: Some(&names),
        prune: args.prune,
        take_over: args.take_over,
        only: own.as_deref(),
        renames: &[],
    };
    let wanted = read_files(&args.path, &args.set, as_json)?;
    let present = found::all(db).await?;
    let renames = renames(&wanted.jobs, &present);
    let scope = Scope {
        renames: &renames,
        ..scope
    };
    check_sources(&wanted.jobs, &present, &scope)?;
    let pools = every(|paging| async move { reading::pools(db, &paging).await })
        .await?
        .items;
    let targets = notify::targets(db).await?;
    let (pools_there, targets_there) = (shared_pools(&pools), shared_targets(&targets));
    let steps = plan_pools(&wanted.pools, &pools_there, &scope);
    check_shared("pool", &steps, &pools_there, &wanted.jobs, &present, &scope)?;
    let steps = plan_targets(&wanted.targets, &targets_there, &scope);
    check_shared("target", &steps, &targets_there, &wanted.jobs, &present, &scope)?;
    let size = |size: u32| json!({"size": size});
    let mut diffs = compare(
        Of::Pool,
        (wanted.pools.iter()).map(|pool| (pool.name.as_str(), size(pool.size))),
        (pools.iter()).map(|old| (old.name.as_str(), old.source.as_str(), size(old.file_size))),
        &scope,
    );
    diffs.extend(compare(
        Of::Target,
        (wanted.targets.iter()).map(|target| (target.name.as_str(), value_of(&target.spec))),
        (targets.iter()).filter_map(|old| {
            Some((
                old.name.as_str(),
                old.source.as_str(),
                value_of(old.spec.as_ref()?),
            ))
        }),
        &scope,
    ));
    let renamed =
        |former: &str| (renames.iter()).find_map(|(old, name)| (old == former).then_some(name.as_str()));
    let mut jobs = compare(
        Of::JobId,
        (wanted.jobs.iter()).map(|job| (job.name.as_str(), value_of(&job.spec))),
        (present.iter()).map(|old| {
            let name = renamed(&old.job_id).unwrap_or(&old.job_id);
            (name, old.source.as_str(), old.spec.clone())
        }),
        &scope,
    );
    for (former, name) in &renames {
        if let Some(diff) = jobs.iter_mut().find(|diff| diff.of.name() == name) {
            diff.change = Kind::Updated;
            let change = Change {
                old: json!(former),
                new: json!(name),
            };
            diff.keys.insert("name".to_owned(), change);
        }
    }
    diffs.extend(jobs);
    Ok(diffs)
}

/// What files define against what is there, with its source; then what would be deleted.
fn compare<'a>(
    of: fn(String) -> Of,
    wanted: impl Iterator<Item = (&'a str, Value)>,
    present: impl Iterator<Item = (&'a str, &'a str, Value)>,
    scope: &Scope<'_>,
) -> Vec<Diff> {
    let mut present: BTreeMap<&str, (&str, Value)> = present
        .map(|(name, source, value)| (name, (source, value)))
        .collect();
    let mut diffs = Vec::new();
    for (name, new) in wanted {
        diffs.push(match present.remove(name) {
            Some((_, old)) => hide_path(between(of(name.to_owned()), &old, &new)),
            None => whole(of(name.to_owned()), Kind::Created),
        });
    }
    let is_job = |name: &str| matches!(of(name.to_owned()), Of::JobId(_));
    let prunes = |name: &str, source: &str| scope.prunes(source, is_job(name).then_some(name));
    let gone = present.iter().filter(|(name, (source, _))| prunes(name, source));
    diffs.extend(gone.map(|(name, _)| whole(of((*name).to_owned()), Kind::Deleted)));
    diffs
}

/// As `notify ls` shows a webhook.
fn hide_path(mut diff: Diff) -> Diff {
    if let (Of::Target(_), Some(change)) = (&diff.of, diff.keys.get_mut("webhook")) {
        for url in [&mut change.old, &mut change.new] {
            *url = url
                .as_str()
                .map_or(Value::Null, |url| json!(format!("{}/…", without_path(url))));
        }
    }
    diff
}

fn whole(of: Of, change: Kind) -> Diff {
    let keys = BTreeMap::new();
    Diff { of, change, keys }
}

/// Shows what differs between two revisions, and says whether anything does.
async fn of_revisions(db: &Db, name: &str, args: &DiffArgs, as_json: bool) -> Result<bool, Failure> {
    let Some(diff) = reading::diff(db, name, args.from, args.to).await? else {
        found::known(db, name).await?;
        return Err(
            Failure::new(Exit::NotFound, format!("{name} has no such two revisions"))
                .next("`farmhand job show` lists the revisions"),
        );
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
        Failure::new(Exit::NotFound, format!("{name} has no revision {rev}"))
            .next("`farmhand job show` lists the revisions")
    })
}

fn between(of: Of, old: &Value, new: &Value) -> Diff {
    changed(of, changes(old, new))
}

fn changed(of: Of, keys: BTreeMap<String, Change>) -> Diff {
    let change = if keys.is_empty() {
        Kind::Unchanged
    } else {
        Kind::Updated
    };
    Diff { of, change, keys }
}

fn show(diff: &Diff) {
    if diff.change != Kind::Unchanged {
        out::line(&format!("{} {}", diff.change.sign(), diff.of));
    }
    for (key, change) in &diff.keys {
        out::line(&out::printable(&format!("  - {key} = {}", change.old)));
        out::line(&out::printable(&format!("  + {key} = {}", change.new)));
    }
}

/// The earlier definition is applied like any other: history only grows.
pub(super) async fn rollback(db: &Db, args: &RollbackArgs, as_json: bool) -> Outcome {
    let row = found::one(db, &args.name).await?;
    let revisions = jobs::revisions(db, &args.name, REVISIONS).await?;
    let revision = find(&args.name, &revisions, args.rev)?;
    let spec = serde_json::from_value(revision.spec.clone()).map_err(|error| {
        Failure::new(Exit::Refused, format!("revision {} cannot be read", args.rev))
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
            renamed_from: None,
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
