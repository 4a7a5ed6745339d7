//! Sources: what an apply may delete, and what it may not change.

use std::path::{Path, PathBuf};

use farmhand_core::notify::TargetSpec;
use farmhand_store::jobs::{Listed, PoolChange, Scope, TargetChange, User};

use super::apply_plan::{Kind, Shared, Step};
use super::job_files::{Files, Wanted};
use super::{Exit, Failure, job_files, out, terminal};

/// What the definitions of these files belong to.
pub(super) fn sources(paths: &[PathBuf], name: Option<&str>, prune: bool) -> Result<Vec<String>, Failure> {
    if let Some(name) = name {
        // A slash at the end says that it is a directory.
        return match name.trim().trim_end_matches('/') {
            "" => Err(Failure::usage("--source needs a name")),
            name => Ok(vec![name.to_owned()]),
        };
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
pub(super) fn confirm(steps: &[Step], others: usize) -> Result<(), Failure> {
    let gone: Vec<&Step> = steps.iter().filter(|step| step.change == Kind::Deleted).collect();
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
    let unasked = Failure::new(
        Exit::Refused,
        format!("this would delete {what}{live}; nothing was applied"),
    );
    let question = format!("Delete {what}{live}? Their history stays.");
    let next = "check the plan with --dry-run, then add --yes";
    terminal::agree(&question, "nothing was applied", unasked.next(next))
}

/// Refuses to change what another source defines.
pub(super) fn check_sources(wanted: &[Wanted], present: &[Listed], scope: &Scope<'_>) -> Result<(), Failure> {
    let other = |job: &Wanted| {
        let former = scope.renames.iter().find(|(_, name)| *name == job.name);
        let name = former.map_or(&job.name, |(former, _)| former);
        let listed = present.iter().find(|listed| listed.job_id == *name);
        listed.filter(|listed| scope.forbids(&listed.source))
    };
    match wanted.iter().find_map(other) {
        Some(listed) => Err(other_source("job", &listed.job_id, &listed.source)),
        None => Ok(()),
    }
}

/// Refuses to change a pool or target of another source, and to delete one that jobs outside of this apply need.
pub(super) fn check_shared<V>(
    what: &str,
    steps: &[Step],
    there: &[Shared<'_, V>],
    wanted: &[Wanted],
    present: &[Listed],
    scope: &Scope<'_>,
) -> Result<(), Failure> {
    let stays = |name: &String| {
        let judged = wanted.iter().any(|job| job.name == *name);
        let listed = present.iter().find(|job| job.job_id == *name)?;
        (!judged && !scope.prunes(&listed.source, Some(name))).then(|| User {
            job_id: name.clone(),
            source: listed.source.clone(),
        })
    };
    for step in steps {
        let Some(one) = there.iter().find(|one| one.name == step.of.name()) else {
            continue;
        };
        if step.change == Kind::Updated && scope.forbids(one.source) {
            return Err(other_source(what, one.name, one.source));
        }
        let user = one.jobs.iter().find_map(stays);
        if let Some(by) = user.filter(|_| step.change == Kind::Deleted) {
            return Err(needed(what, one.name, &by));
        }
    }
    Ok(())
}

/// Whether anything only changes hands.
pub(super) fn moved(
    wanted: &Files,
    jobs: &[Listed],
    pools: &[Shared<'_, u32>],
    targets: &[Shared<'_, &TargetSpec>],
    scope: &Scope<'_>,
) -> bool {
    let job = |job: &Wanted| {
        let old = jobs.iter().find(|old| old.job_id == job.name);
        old.is_some_and(|old| scope.moves(&old.source, &job.source))
    };
    let pool = |pool: &PoolChange| {
        let old = pools.iter().find(|old| old.name == pool.name);
        old.is_some_and(|old| scope.moves(old.source, &pool.source))
    };
    let target = |target: &TargetChange| {
        let old = targets.iter().find(|old| old.name == target.name);
        old.is_some_and(|old| scope.moves(old.source, &target.source))
    };
    wanted.jobs.iter().any(job) || wanted.pools.iter().any(pool) || wanted.targets.iter().any(target)
}

pub(super) fn other_source(what: &str, name: &str, source: &str) -> Failure {
    let here = match what {
        "job" => "rename the job",
        "pool" => "give it the same size here",
        _ => "give it the same keys here",
    };
    Failure::new(Exit::Refused, "nothing was applied")
        .why(format!(
            "the {what} {name} is defined by another source: {source}"
        ))
        .next(format!(
            "apply {source} instead, {here}, or move it here with --take-over"
        ))
}

pub(super) fn needed(what: &str, name: &str, by: &User) -> Failure {
    let User { job_id, source } = by;
    Failure::new(Exit::Refused, "nothing was applied")
        .why(format!(
            "the {what} {name} would be deleted, and {job_id} of {source} needs it"
        ))
        .next(format!(
            "keep it in these files, or move it first: apply {source} with --take-over"
        ))
}
