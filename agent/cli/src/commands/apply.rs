//! `farmhand job apply`: from files to definitions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use farmhand_core::definition::{
    Definitions, JobDefinition, JobSpec, PoolDefinition, TargetDefinition, load_with,
};
use farmhand_core::document::{Mistakes, Source};
use farmhand_core::due;
use farmhand_store::jobs::{ApplyOutcome, Blocked, JobChange, PoolChange, Scope, TargetChange, apply_signed};
use farmhand_store::reading::{self, every};
use farmhand_store::signatures::Signed;
use farmhand_store::{Db, notify, restrictions, tables};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::apply_plan::{plan, show, summary};
use super::apply_pools::{no_pool, plan_pools, pool_in_use, shared_pools, show_pools};
use super::apply_source::{check_shared, check_sources, confirm, moves, needed, other_source, sources};
use super::apply_targets::{no_target, plan_targets, shared_targets, show_targets};
use super::rename::renames;
use super::{DatabaseArgs, Exit, Failure, Outcome, job_files, out, progress, rename, sign, triggers};
use farmhand_control::{due_now, jobs};

pub(super) use super::apply_plan::{Kind, Step};

#[derive(Args, Debug)]
pub(crate) struct ApplyArgs {
    /// Job files; of a directory all *.toml in it and below it; - is standard input
    #[arg(required = true)]
    pub(super) path: Vec<PathBuf>,
    #[command(flatten)]
    set: job_files::SetArgs,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Delete what these sources defined before and do not define any more; other sources' jobs stay
    #[arg(long)]
    pub(super) prune: bool,
    /// Delete without asking
    #[arg(long)]
    pub(super) yes: bool,
    /// The source these files are applied as, such as a repository's name; without it each path is a source
    #[arg(long, value_name = "NAME")]
    pub(super) source: Option<String>,
    /// Take over jobs that another source defines
    #[arg(long)]
    take_over: bool,
    /// Apply only what one of these keys signed
    #[arg(long, value_name = "FILE")]
    trusted_keys: Option<PathBuf>,
}

/// A definition to be stored.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub name: String,
    pub spec: JobSpec,
    pub source: String,
    /// Who vouches for it.
    pub signed: Option<Signed>,
    /// What it was called before.
    pub renamed_from: Option<String>,
}

/// All that files define.
pub(super) struct Files {
    pub jobs: Vec<Wanted>,
    pub pools: Vec<PoolChange>,
    pub targets: Vec<TargetChange>,
}

pub(super) async fn run(database: &DatabaseArgs, args: &ApplyArgs, as_json: bool) -> Outcome {
    let names = sources(&args.path, args.source.as_deref(), args.prune)?;
    let (files_read, all) = load_files(&args.path, &args.set, as_json)?;
    if args.dry_run {
        database.url().map_err(good_without_database)?;
    }
    let db = database.connect().await?;
    let own = restrictions::own(&db).await?;
    let scope = Scope {
        sources: Some(&names),
        prune: args.prune,
        take_over: args.take_over,
        only: own.as_deref(),
        renames: &[],
    };
    let present = jobs::all(&db).await?;
    triggers::check(&files_read, &all.jobs, &present, &scope)
        .map_err(|mistakes| refuse(&mistakes, as_json))?;
    let mut wanted = files(&files_read, all);
    let renames = renames(&wanted.jobs, &present);
    let scope = Scope {
        renames: &renames,
        ..scope
    };
    if let Some(name) = &args.source {
        wanted.belong_to(name);
    }
    check_sources(&wanted.jobs, &present, &scope)?;
    sign::attach(&mut wanted.jobs, args.trusted_keys.as_deref())?;
    let steps = plan(&wanted.jobs, &present, &scope);
    let there = every(|paging| {
        let db = &db;
        async move { reading::pools(db, &paging).await }
    });
    let there = there.await?.items;
    let told = notify::targets(&db).await?;
    let pools = plan_pools(&wanted.pools, &there, &scope);
    let targets = plan_targets(&wanted.targets, &told, &scope);
    check_shared(shared_pools(&pools, &there), &wanted.jobs, &present, &scope)?;
    check_shared(shared_targets(&targets, &told), &wanted.jobs, &present, &scope)?;
    if !as_json {
        show_pools(&pools);
        show_targets(&targets);
        show(&steps);
    }
    check_tables(&db, &wanted.jobs).await?;
    let changes = moves(&wanted, &present, &there, &told, &scope)
        || steps.iter().any(|step| step.change != Kind::Unchanged)
        || wanted.jobs.iter().any(|job| job.signed.is_some())
        || pools.iter().any(|step| step.change != Kind::Unchanged)
        || targets.iter().any(|step| step.change != Kind::Unchanged);
    if changes && !args.dry_run {
        let others = (pools.iter().filter(|step| step.change == Kind::Deleted).count())
            + targets.iter().filter(|step| step.change == Kind::Deleted).count();
        confirm(&steps, others, args)?;
        let work = store(&db, &wanted.jobs, Some(&wanted), scope);
        progress::during("applying", work).await?;
        if !scope.renames.is_empty() {
            rename::move_all(&db).await?;
        }
    }
    if as_json {
        let applied = changes && !args.dry_run;
        out::json(&json!({"applied": applied, "jobs": steps, "pools": pools, "targets": targets}));
    } else {
        out::note(&summary(&steps, args.dry_run));
    }
    Ok(Exit::Ok)
}

/// Files without a mistake do not end as files with one do.
fn good_without_database(mut failure: Failure) -> Failure {
    failure.exit = Exit::Unreachable;
    failure
        .why("the job files have no mistakes; what they would change is in the database")
        .next("name a database, or check the files alone with `farmhand job check`")
}

/// Holds table jobs against their tables, as this role sees them. What makes them slow is only said.
async fn check_tables(db: &Db, wanted: &[Wanted]) -> Result<(), Failure> {
    let mut failure = None;
    for job in wanted {
        let Some(table) = job.spec.table.as_ref().filter(|_| job.spec.enabled) else {
            continue;
        };
        for found in tables::check(db, table).await? {
            let text = format!("job {}: {}\n  {}", job.name, found.problem, found.fix);
            if found.fatal {
                let so_far = failure.take();
                let so_far = so_far
                    .unwrap_or_else(|| Failure::new(Exit::Refused, "a table is not as its job wants it"));
                failure = Some(so_far.why(text));
            } else {
                out::note(&format!("warning: {text}"));
            }
        }
    }
    match failure {
        Some(failure) => Err(failure.next("nothing was applied; fix the table or the job file")),
        None => Ok(()),
    }
}

/// The definitions of all files.
///
/// # Errors
/// Files that cannot be read, and every mistake in them.
pub(super) fn read_files(
    paths: &[PathBuf],
    set: &job_files::SetArgs,
    as_json: bool,
) -> Result<Files, Failure> {
    let (sources, all) = load_files(paths, set, as_json)?;
    Ok(files(&sources, all))
}

fn load_files(
    paths: &[PathBuf],
    set: &job_files::SetArgs,
    as_json: bool,
) -> Result<(Vec<Source>, Definitions), Failure> {
    let sources = job_files::read_all(paths)?;
    let all = load_with(&sources, &set.vars()).map_err(|mistakes| refuse(&mistakes, as_json))?;
    Ok((sources, all))
}

fn files(sources: &[Source], all: Definitions) -> Files {
    let wanted = |job: JobDefinition| Wanted {
        source: sources[job.source].name.clone(),
        name: job.name,
        spec: job.spec,
        signed: None,
        renamed_from: job.renamed_from,
    };
    let pool = |pool: PoolDefinition| PoolChange {
        source: sources[pool.source].name.clone(),
        name: pool.name,
        size: pool.size,
    };
    let target = |target: TargetDefinition| TargetChange {
        source: sources[target.source].name.clone(),
        name: target.name,
        spec: target.spec,
    };
    Files {
        jobs: all.jobs.into_iter().map(wanted).collect(),
        pools: all.pools.into_iter().map(pool).collect(),
        targets: all.targets.into_iter().map(target).collect(),
    }
}

fn refuse(mistakes: &Mistakes, as_json: bool) -> Failure {
    if as_json {
        out::json(&json!({"mistakes": mistakes.located()}));
    } else {
        let width = out::width().unwrap_or(120);
        out::raw_err(mistakes.render(out::color(), width.into()).as_bytes());
    }
    let what = match mistakes.len() {
        1 => "the job files have a mistake".to_owned(),
        n => format!("the job files have {n} mistakes"),
    };
    Failure::usage(what).next("Nothing was applied; fix these errors")
}

/// A definition as the database has it.
pub(super) fn value_of(spec: &impl Serialize) -> Value {
    serde_json::to_value(spec).unwrap_or(Value::Null)
}

/// Applies in one transaction, with the pools and targets of the files when there are files, firing first what is
/// overdue under the present definitions.
///
/// # Errors
/// 4 for a pool or target that is not there, or a pool that would go while runs use it.
pub(super) async fn store(
    db: &Db,
    wanted: &[Wanted],
    shared: Option<&Files>,
    scope: Scope<'_>,
) -> Result<(), Failure> {
    let (pools, targets) = (shared.map(|f| &f.pools[..]), shared.map(|f| &f.targets[..]));
    let signed = (wanted.iter()).filter_map(|job| Some((job.name.clone(), job.signed.clone()?)));
    let signed = signed.collect();
    let mut decided: BTreeMap<String, Timestamp> = BTreeMap::new();
    for _ in 0..due_now::TRIES {
        let now = reading::now(db).await?;
        let changes = wanted
            .iter()
            .map(|job| change(job, decided.get(&job.name).map_or(now, |d| now.max(*d))))
            .collect::<Result<Vec<_>, _>>()?;
        let blocked =
            match apply_signed(db, &changes, &signed, (pools, targets), scope, &super::who()).await? {
                ApplyOutcome::Done { .. } => return Ok(()),
                ApplyOutcome::Refused(faults) => {
                    let failure = Failure::new(Exit::Refused, "the triggers of the jobs do not fit together");
                    let failure = faults.iter().fold(failure, |f, fault| f.why(fault));
                    return Err(failure.next("nothing was applied; fix `triggered_by`"));
                }
                ApplyOutcome::Blocked(blocked) => blocked,
            };
        let mut overdue = Vec::new();
        for obstacle in blocked {
            match obstacle {
                Blocked::Overdue { job_id, .. } => overdue.push(job_id),
                Blocked::Stale {
                    job_id,
                    decided_until,
                } => {
                    decided.insert(job_id, decided_until);
                }
                Blocked::Renamed { job_id, to } => return Err(rename::former_name(&job_id, &to)),
                Blocked::OtherSource { what, name, source } => {
                    return Err(other_source(what, &name, &source));
                }
                Blocked::Needed { what, name, by } => return Err(needed(what, &name, &by)),
                Blocked::NoPool { job_id, pool } => return Err(no_pool(&job_id, &pool)),
                Blocked::PoolInUse { pool, runs } => return Err(pool_in_use(&pool, &runs)),
                Blocked::NoTarget { job_id, target } => return Err(no_target(&job_id, &target)),
            }
        }
        if !overdue.is_empty() {
            due_now::fire_overdue(db, &overdue).await?;
        }
    }
    Err(due_now::busy("a job").into())
}

fn change(job: &Wanted, after: Timestamp) -> Result<JobChange, Failure> {
    let (schedule, policy) = due::compile(&job.name, &job.spec).map_err(due_now::unusable)?;
    Ok(JobChange {
        job_id: job.name.clone(),
        spec: job.spec.clone(),
        next_run: due::next_run(&schedule, &policy, after),
        source: job.source.clone(),
    })
}
