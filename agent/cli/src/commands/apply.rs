//! `farmhand job apply`: from files to definitions.

use std::path::{Path, PathBuf};

use clap::Args;
use farmhand_control::definitions::{self, Files, Plan, Present, Request, Step};
use farmhand_control::{By, jobs};
use farmhand_store::jobs::Change;

use super::job_files::{load, refuse};
use super::{DatabaseArgs, Exit, Failure, Outcome, job_files, out, progress, sign, terminal};

#[derive(Args, Debug)]
pub(crate) struct ApplyArgs {
    /// Job files; of a directory all *.toml in it and below it; - is standard input
    #[arg(required = true)]
    pub(super) path: Vec<PathBuf>,
    #[command(flatten)]
    environment: job_files::EnvironmentArgs,
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
    let (name, prefix) = (args.source.as_deref(), &args.environment.prefix);
    let request = request(&args.path, name, prefix, args.prune, args.take_over)?;
    let (files_read, all) = load(&args.path, &args.environment, as_json)?;
    if args.dry_run {
        database.url().map_err(good_without_database)?;
    }
    let db = database.connect().await?;
    let who = super::who();
    let by = By::login(&who);
    let present = Present::read(&db, by).await?;
    present
        .check_triggers(&files_read, &all, &request)
        .map_err(|mistakes| refuse(&mistakes, as_json))?;
    let mut wanted = Files::of(&files_read, all);
    sign::attach(&mut wanted.jobs, args.trusted_keys.as_deref())?;
    let mut plan = present.plan(&db, wanted, request, by).await?;
    if !as_json {
        plan.steps().for_each(show);
    }
    let tables = plan.check_tables(&db).await?;
    for text in &tables.warnings {
        out::note(&format!("warning: {text}"));
    }
    tables.refusal.map_or(Ok(()), Err)?;
    let applied = plan.changes() && !args.dry_run;
    if applied {
        if !args.yes {
            confirm(&plan)?;
        }
        progress::during("applying", plan.apply(&db, by)).await?;
        for step in &plan.jobs {
            let left = jobs::left(step.withdrawn.unwrap_or(0), step.running.unwrap_or(0));
            left.into_iter()
                .for_each(|left| out::note(&format!("{}: {left}", step.of.name())));
        }
    }
    if as_json {
        out::json(&plan.into_changes(applied));
    } else {
        out::note(&summary(&plan.jobs, args.dry_run));
    }
    Ok(Exit::Ok)
}

/// Files without a mistake do not end as files with one do.
fn good_without_database(failure: Failure) -> Failure {
    failure
        .ending(Exit::Unreachable)
        .why("the job files have no mistakes; what they would change is in the database")
        .next("name a database, or check the files alone with `farmhand job check`")
}

/// As what these files are applied.
pub(super) fn request(
    paths: &[PathBuf],
    name: Option<&str>,
    prefix: &str,
    prune: bool,
    take_over: bool,
) -> Result<Request, Failure> {
    Ok(Request {
        prune,
        take_over,
        ..Request::of(&sources(paths, name, prune)?, name.is_some(), prefix)
    })
}

/// What the definitions of these files belong to.
fn sources(paths: &[PathBuf], name: Option<&str>, prune: bool) -> Result<Vec<String>, Failure> {
    if let Some(name) = name {
        let name = definitions::source_name(name).ok_or_else(|| Failure::usage("--source needs a name"))?;
        return Ok(vec![name]);
    }
    let names: Vec<String> = paths.iter().map(|path| source_of(path)).collect();
    let elsewhere = names.iter().find(|name| !Path::new(name).is_absolute());
    match elsewhere.filter(|_| prune).map(String::as_str) {
        None => Ok(names),
        Some("-") => Err(Failure::usage("--prune needs to know what was applied before")
            .why("standard input has no name")
            .next("add --source NAME")),
        Some(path) => Err(Failure::usage("--prune needs a source that means the same in every directory")
            .why(format!(
                "{path} is a relative path: applied in another directory or on another host it is the same source, and \
                 each would delete the other's jobs"
            ))
            .next("add --source NAME or write the whole path, the first time with --take-over")),
    }
}

/// The path of a file, or of a directory, which ends with a slash: it covers the files in it.
fn source_of(path: &Path) -> String {
    let name = job_files::name_of(path);
    if path.is_dir() && !name.ends_with('/') {
        return name + "/";
    }
    name
}

/// Has a person agree to what is deleted; where there is none, `--yes` must say so.
fn confirm(plan: &Plan) -> Result<(), Failure> {
    let is_gone = |step: &&Step| step.change == Change::Deleted;
    let gone: Vec<&Step> = plan.jobs.iter().filter(is_gone).collect();
    let others = plan.pools.iter().chain(&plan.targets).filter(is_gone).count();
    if gone.is_empty() && others == 0 {
        return Ok(());
    }
    let running = gone.iter().filter(|step| step.running_at.is_some()).count();
    let what = match (gone.len(), others) {
        (jobs, 0) => out::count(jobs, "job"),
        (jobs, others) => format!(
            "{} and {}",
            out::count(jobs, "job"),
            out::count(others, "other definition")
        ),
    };
    let live = match running {
        0 => String::new(),
        n => format!(" ({n} running now)"),
    };
    let unasked = Failure::refused(format!("this would delete {what}{live}; nothing was applied"));
    let question = format!("Delete {what}{live}? What waits of them is withdrawn; their history stays.");
    let next = "check the plan with --dry-run, then add --yes";
    terminal::agree(&question, "nothing was applied", unasked.next(next))
}

pub(super) fn sign_of(change: Change) -> char {
    match change {
        Change::Created => '+',
        Change::Updated => '~',
        Change::Unchanged => '=',
        Change::Deleted => '-',
    }
}

fn show(step: &Step) {
    let more = match (&step.running_at, step.size) {
        (Some(node), _) => format!("running at {node}"),
        (None, Some(size)) => format!("size {size}"),
        (None, None) => step.keys.join(", "),
    };
    out::line(format!("{} {}  {more}", sign_of(step.change), step.of).trim_end());
}

fn summary(steps: &[Step], dry_run: bool) -> String {
    let count = |change| steps.iter().filter(|step| step.change == change).count();
    let would = if dry_run {
        " (nothing was applied: --dry-run)"
    } else {
        ""
    };
    format!(
        "{} new, {} changed, {} unchanged, {} deleted{would}",
        count(Change::Created),
        count(Change::Updated),
        count(Change::Unchanged),
        count(Change::Deleted)
    )
}
