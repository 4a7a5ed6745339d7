//! Sources: what an apply may not change, and what it may not delete.

use std::collections::{BTreeMap, BTreeSet};

use farmhand_store::jobs::{Change, Listed, PoolChange, Scope, TargetChange, User};
use farmhand_store::notify::TargetRow;
use farmhand_store::reading::PoolItem;

use super::files::{Files, Wanted, prefix_of};
use super::plan::Step;
use crate::Refusal;

/// A pool or target that is there.
pub(super) struct Shared<'a> {
    name: &'a str,
    source: &'a str,
    jobs: &'a [String],
}

pub(super) fn shared_pools(rows: &[PoolItem]) -> Vec<Shared<'_>> {
    let shared = rows.iter().map(|row| Shared {
        name: &row.name,
        source: &row.source,
        jobs: &row.jobs,
    });
    shared.collect()
}

/// The targets that files define.
pub(super) fn shared_targets(rows: &[TargetRow]) -> Vec<Shared<'_>> {
    let defined = rows.iter().filter(|row| row.spec.is_some());
    let shared = defined.map(|row| Shared {
        name: &row.name,
        source: &row.source,
        jobs: &row.jobs,
    });
    shared.collect()
}

/// Thousands are looked up.
fn by_name(jobs: &[Listed]) -> BTreeMap<&str, &Listed> {
    jobs.iter().map(|job| (job.job_id.as_str(), job)).collect()
}

/// Refuses to change what another source defines.
pub(super) fn check_sources(wanted: &[Wanted], present: &[Listed], scope: &Scope<'_>) -> Result<(), Refusal> {
    let present = by_name(present);
    let other = |job: &Wanted| {
        let listed = present.get(job.name.as_str());
        listed.filter(|listed| scope.forbids(&listed.source))
    };
    match wanted.iter().find_map(other) {
        Some(listed) => Err(other_source("job", &listed.job_id, &listed.source)),
        None => Ok(()),
    }
}

/// Refuses to change a pool or target of another source, and to delete one that jobs outside of this apply need.
pub(super) fn check_shared(
    what: &str,
    steps: &[Step],
    there: &[Shared<'_>],
    wanted: &[Wanted],
    present: &[Listed],
    scope: &Scope<'_>,
) -> Result<(), Refusal> {
    let present = by_name(present);
    let wanted: BTreeSet<&str> = wanted.iter().map(|job| job.name.as_str()).collect();
    let stays = |name: &String| {
        let judged = wanted.contains(name.as_str());
        let listed = present.get(name.as_str())?;
        (!judged && !scope.prunes(&listed.source, Some(name))).then(|| User {
            job_id: name.clone(),
            source: listed.source.clone(),
        })
    };
    for step in steps {
        let Some(one) = there.iter().find(|one| one.name == step.of.name()) else {
            continue;
        };
        if step.change == Change::Updated && scope.forbids(one.source) {
            return Err(other_source(what, one.name, one.source));
        }
        let user = one.jobs.iter().find_map(stays);
        if let Some(by) = user.filter(|_| step.change == Change::Deleted) {
            return Err(needed(what, one.name, &by));
        }
    }
    Ok(())
}

/// Whether anything only changes hands.
pub(super) fn moved(
    wanted: &Files,
    jobs: &[Listed],
    pools: &[Shared<'_>],
    targets: &[Shared<'_>],
    scope: &Scope<'_>,
) -> bool {
    let jobs = by_name(jobs);
    let job = |job: &Wanted| {
        let old = jobs.get(job.name.as_str());
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

pub(super) fn other_source(what: &str, name: &str, source: &str) -> Refusal {
    let here = match what {
        "job" => "rename the job",
        "pool" => "give it the same size here",
        _ => "give it the same keys here",
    };
    Refusal::refused("nothing was applied")
        .why(format!(
            "the {what} {name} is defined by another source: {source}"
        ))
        .next(format!(
            "apply {} instead, {here}, or move it here with --take-over",
            applied_as(source, name)
        ))
}

/// As what people apply it: the prefix of its names is an option of its own.
fn applied_as(source: &str, name: &str) -> String {
    match prefix_of(source, name) {
        "" => source.to_owned(),
        prefix => format!("{} with --prefix {prefix}", &source[prefix.len() + 1..]),
    }
}

pub(super) fn needed(what: &str, name: &str, by: &User) -> Refusal {
    let User { job_id, source } = by;
    Refusal::refused("nothing was applied")
        .why(format!(
            "the {what} {name} would be deleted, and {job_id} of {source} needs it"
        ))
        .next(format!(
            "keep it in these files, or move it first: apply {} with --take-over",
            applied_as(source, job_id)
        ))
}
