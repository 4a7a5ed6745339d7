//! The pools of job files, as `farmhand job apply` plans, shows and refuses them.

use farmhand_store::jobs::{PoolChange, Scope};
use farmhand_store::reading::PoolItem;
use serde::Serialize;

use super::apply::Kind;
use super::apply_source::Shared;
use super::{Exit, Failure, out};

/// One line of the plan.
#[derive(Debug, Serialize)]
pub(super) struct PoolStep {
    pool: String,
    pub(super) change: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u32>,
}

/// What applying would do; `present` is what the farm has.
pub(super) fn plan_pools(wanted: &[PoolChange], present: &[PoolItem], scope: &Scope<'_>) -> Vec<PoolStep> {
    let step = |pool: &PoolChange| PoolStep {
        pool: pool.name.clone(),
        size: Some(pool.size),
        change: match present.iter().find(|old| old.name == pool.name) {
            None => Kind::Created,
            Some(old) if old.file_size == pool.size => Kind::Unchanged,
            Some(_) => Kind::Updated,
        },
    };
    let gone = (present.iter())
        .filter(|old| scope.prunes(&old.source, None) && !wanted.iter().any(|pool| pool.name == old.name))
        .map(|old| PoolStep {
            pool: old.name.clone(),
            size: None,
            change: Kind::Deleted,
        });
    wanted.iter().map(step).chain(gone).collect()
}

/// Each pool that is there and that applying would change.
pub(super) fn shared_pools<'a>(
    steps: &'a [PoolStep],
    present: &'a [PoolItem],
) -> impl Iterator<Item = Shared<'a>> {
    steps.iter().filter_map(|step| {
        let row = present.iter().find(|row| row.name == step.pool)?;
        Some(Shared {
            what: "pool",
            name: &row.name,
            source: &row.source,
            jobs: &row.jobs,
            change: step.change,
        })
    })
}

pub(super) fn show_pools(steps: &[PoolStep]) {
    for step in steps {
        let size = step.size.map_or_else(String::new, |size| format!("size {size}"));
        let line = format!("{} pool {}  {size}", step.change.sign(), step.pool);
        out::line(line.trim_end());
    }
}

pub(super) fn no_pool(job_id: &str, pool: &str) -> Failure {
    Failure::new(Exit::Refused, "nothing was applied")
        .why(format!("{job_id} needs the pool {pool}, and there is none"))
        .next(format!("apply a file with [pool.{pool}] first"))
}

pub(super) fn pool_in_use(pool: &str, runs: &[i64]) -> Failure {
    let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
    Failure::new(Exit::Refused, "nothing was applied")
        .why(format!(
            "the pool {pool} would be deleted, and runs are in it or wait for it: {}",
            runs.join(", ")
        ))
        .next("wait for them, or `farmhand run cancel` them; `farmhand pool ls` shows who is in it")
}
