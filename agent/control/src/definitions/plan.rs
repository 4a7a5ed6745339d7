//! What applying job files would do, line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use farmhand_core::definition::differences;
use farmhand_core::notify::TargetSpec;
use farmhand_store::jobs::{Change, Listed, PoolChange, Scope, TargetChange};
use farmhand_store::notify::TargetRow;
use farmhand_store::reading::PoolItem;
use serde::Serialize;
use utoipa::ToSchema;

use super::files::{Wanted, value_of};

/// What happens to one job, pool or target.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DefinitionStep)]
pub struct Step {
    /// Which one.
    #[serde(flatten)]
    #[schema(value_type = Named)]
    pub of: Of,
    /// What happens to it.
    pub change: Change,
    /// Keys whose values differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Of a job to be deleted: where it runs now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_at: Option<String>,
    /// Of a job that was deleted: how many of its runs waited, and are cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<i64>,
    /// Of a job that was deleted: how many of its runs go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<i64>,
    /// Of a pool that stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
}

impl Step {
    fn new(of: Of, change: Change) -> Self {
        Self {
            of,
            change,
            keys: Vec::new(),
            running_at: None,
            withdrawn: None,
            running: None,
            size: None,
        }
    }
}

/// What kind of definition it is, and its name.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    JobId(String),
    Pool(String),
    Target(String),
}

/// As the API's documents describe [`Of`]: one of these is there.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DefinitionName)]
pub(super) struct Named {
    /// A job's name.
    job_id: Option<String>,
    /// A pool's name.
    pool: Option<String>,
    /// The name of a target of messages.
    target: Option<String>,
}

impl Of {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::JobId(name) | Self::Pool(name) | Self::Target(name) => name,
        }
    }
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobId(name) => f.write_str(name),
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Target(name) => write!(f, "notify {name}"),
        }
    }
}

/// What happens to jobs.
pub(super) fn plan(wanted: &[Wanted], present: &[Listed], scope: &Scope<'_>) -> Vec<Step> {
    let before: BTreeMap<&str, &Listed> = present.iter().map(|job| (job.job_id.as_str(), job)).collect();
    let mut steps: Vec<Step> = wanted
        .iter()
        .map(|job| {
            let keys = before
                .get(job.name.as_str())
                .map(|old| differences(&old.spec, &value_of(&job.spec)));
            let change = match &keys {
                None => Change::Created,
                Some(keys) if keys.is_empty() => Change::Unchanged,
                Some(_) => Change::Updated,
            };
            Step {
                keys: keys.unwrap_or_default(),
                ..Step::new(Of::JobId(job.name.clone()), change)
            }
        })
        .collect();
    let kept: BTreeSet<&str> = wanted.iter().map(|job| job.name.as_str()).collect();
    let gone = (before.iter())
        .filter(|(name, job)| scope.prunes(&job.source, Some(&job.job_id)) && !kept.contains(*name))
        .map(|(_, job)| job);
    steps.extend(gone.map(|job| Step {
        running_at: job.running_at.clone(),
        ..Step::new(Of::JobId(job.job_id.clone()), Change::Deleted)
    }));
    steps
}

/// A pool or target that is there.
pub(super) struct Shared<'a, V> {
    pub name: &'a str,
    pub source: &'a str,
    pub jobs: &'a [String],
    pub value: V,
}

/// The pools, with the sizes of their files.
pub(super) fn shared_pools(rows: &[PoolItem]) -> Vec<Shared<'_, u32>> {
    let shared = rows.iter().map(|row| Shared {
        name: &row.name,
        source: &row.source,
        jobs: &row.jobs,
        value: row.file_size,
    });
    shared.collect()
}

/// The targets that files define.
pub(super) fn shared_targets(rows: &[TargetRow]) -> Vec<Shared<'_, &TargetSpec>> {
    let shared = rows.iter().filter_map(|row| {
        Some(Shared {
            name: &row.name,
            source: &row.source,
            jobs: &row.jobs,
            value: row.spec.as_ref()?,
        })
    });
    shared.collect()
}

/// As [`plan`], of pools.
pub(super) fn plan_pools(wanted: &[PoolChange], there: &[Shared<'_, u32>], scope: &Scope<'_>) -> Vec<Step> {
    let values = wanted.iter().map(|pool| (pool.name.as_str(), pool.size));
    let step = |(name, change, size)| Step {
        size,
        ..Step::new(Of::Pool(name), change)
    };
    compare(values, there, scope).into_iter().map(step).collect()
}

/// As [`plan`], of targets of messages.
pub(super) fn plan_targets(
    wanted: &[TargetChange],
    there: &[Shared<'_, &TargetSpec>],
    scope: &Scope<'_>,
) -> Vec<Step> {
    let values = wanted.iter().map(|target| (target.name.as_str(), &target.spec));
    let step = |(name, change, _)| Step::new(Of::Target(name), change);
    compare(values, there, scope).into_iter().map(step).collect()
}

/// What files define against what is there; then what would be deleted.
fn compare<'a, V: PartialEq + Copy>(
    wanted: impl Iterator<Item = (&'a str, V)> + Clone,
    there: &[Shared<'_, V>],
    scope: &Scope<'_>,
) -> Vec<(String, Change, Option<V>)> {
    let step = |(name, new): (&str, V)| {
        let change = match there.iter().find(|old| old.name == name) {
            None => Change::Created,
            Some(old) if old.value == new => Change::Unchanged,
            Some(_) => Change::Updated,
        };
        (name.to_owned(), change, Some(new))
    };
    let gone = (there.iter())
        .filter(|old| scope.prunes(old.source, None) && !wanted.clone().any(|(name, _)| name == old.name))
        .map(|old| (old.name.to_owned(), Change::Deleted, None));
    wanted.clone().map(step).chain(gone).collect()
}
