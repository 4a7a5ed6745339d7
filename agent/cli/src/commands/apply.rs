//! `farmhand job apply`: from files to definitions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use farmhand_core::definition::Enabled;
use farmhand_core::due;
use farmhand_store::jobs::{ApplyOutcome, Blocked, JobChange, Scope, apply_signed};
use farmhand_store::reading::{self, every};
use farmhand_store::{Db, notify, restrictions, tables};
use jiff::Timestamp;
use serde_json::json;

use super::apply_plan::{Kind, plan, plan_pools, plan_targets, shared_pools, shared_targets, show, summary};
use super::apply_source::{check_shared, check_sources, confirm, moved, needed, other_source, sources};
use super::job_files::{Files, Wanted, load, refuse};
use super::rename::renames;
use super::{DatabaseArgs, Exit, Failure, Outcome, job_files, out, progress, rename, sign, triggers};
use farmhand_control::{due_now, jobs};

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
    /// The source these files are applied as, such as a repository's name; without it each path is a source, as it is written
    #[arg(long, value_name = "NAME")]
    pub(super) source: Option<String>,
    /// Take over jobs that another source defines
    #[arg(long)]
    take_over: bool,
    /// Apply only what one of these keys signed
    #[arg(long, value_name = "FILE")]
    trusted_keys: Option<PathBuf>,
}

pub(super) async fn run(database: &DatabaseArgs, args: &ApplyArgs, as_json: bool) -> Outcome {
    let names = sources(&args.path, args.source.as_deref(), args.prune)?;
    let (files_read, all) = load(&args.path, &args.set, as_json)?;
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
    let mut wanted = Files::of(&files_read, all);
    let renames = renames(&wanted.jobs, &present);
    let scope = Scope {
        renames: &renames,
        ..scope
    };
    // Before they belong to a name: signatures lie beside the files.
    sign::attach(&mut wanted.jobs, args.trusted_keys.as_deref())?;
    if args.source.is_some() {
        wanted.belong_to(&names[0]);
    }
    check_sources(&wanted.jobs, &present, &scope)?;
    jobs::check_renames(&db, &renames, &present).await?;
    let steps = plan(&wanted.jobs, &present, &scope);
    let pool_rows = every(|paging| {
        let db = &db;
        async move { reading::pools(db, &paging).await }
    });
    let pool_rows = pool_rows.await?.items;
    let target_rows = notify::targets(&db).await?;
    let (pools_there, targets_there) = (shared_pools(&pool_rows), shared_targets(&target_rows));
    let pools = plan_pools(&wanted.pools, &pools_there, &scope);
    let targets = plan_targets(&wanted.targets, &targets_there, &scope);
    check_shared("pool", &pools, &pools_there, &wanted.jobs, &present, &scope)?;
    check_shared("target", &targets, &targets_there, &wanted.jobs, &present, &scope)?;
    let all_steps = || pools.iter().chain(&targets).chain(&steps);
    if !as_json {
        show(all_steps());
    }
    check_tables(&db, &wanted.jobs).await?;
    let changes = moved(&wanted, &present, &pools_there, &targets_there, &scope)
        || wanted.jobs.iter().any(|job| job.signed.is_some())
        || all_steps().any(|step| step.change != Kind::Unchanged);
    if changes && !args.dry_run {
        let others = (pools.iter().chain(&targets))
            .filter(|step| step.change == Kind::Deleted)
            .count();
        if !args.yes {
            confirm(&steps, others)?;
        }
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
        let Some(table) = job
            .spec
            .table
            .as_ref()
            .filter(|_| job.spec.enabled == Enabled::Yes)
        else {
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

fn no_pool(job_id: &str, pool: &str) -> Failure {
    Failure::new(Exit::Refused, "nothing was applied")
        .why(format!("{job_id} needs the pool {pool}, and there is none"))
        .next(format!("apply a file with [pool.{pool}] first"))
}

fn pool_in_use(pool: &str, runs: &[i64]) -> Failure {
    let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
    Failure::new(Exit::Refused, "nothing was applied")
        .why(format!(
            "the pool {pool} would be deleted, and runs are in it or wait for it: {}",
            runs.join(", ")
        ))
        .next("wait for them, or `farmhand run cancel` them; `farmhand pool ls` shows who is in it")
}

fn no_target(job_id: &str, target: &str) -> Failure {
    Failure::new(Exit::Refused, "nothing was applied")
        .why(format!("{job_id} notifies {target}, and there is no such target"))
        .next(format!("apply a file with [notify.{target}] first"))
}
