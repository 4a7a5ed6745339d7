//! What files define, as it is stored.

use farmhand_core::definition::{Definitions, JobDefinition, JobSpec, PoolDefinition, TargetDefinition};
use farmhand_core::document::Source;
use farmhand_store::jobs::{PoolChange, TargetChange};
use farmhand_store::signatures::Signed;
use serde::Serialize;
use serde_json::Value;

/// A definition to be stored.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub name: String,
    pub spec: JobSpec,
    pub source: String,
    pub signed: Option<Signed>,
}

/// All that files define.
#[derive(Debug)]
pub struct Files {
    /// Each `[job.NAME]`.
    pub jobs: Vec<Wanted>,
    /// Each `[pool.NAME]`.
    pub pools: Vec<PoolChange>,
    /// Each `[notify.NAME]`.
    pub targets: Vec<TargetChange>,
}

impl Files {
    /// With the source of each.
    pub fn of(sources: &[Source], all: Definitions) -> Self {
        let wanted = |job: JobDefinition| Wanted {
            source: sources[job.source].name.clone(),
            name: job.name,
            spec: job.spec,
            signed: None,
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
        Self {
            jobs: all.jobs.into_iter().map(wanted).collect(),
            pools: all.pools.into_iter().map(pool).collect(),
            targets: all.targets.into_iter().map(target).collect(),
        }
    }

    /// By the file that it is in.
    pub(super) fn belong_to(&mut self, source: impl Fn(&str) -> String) {
        let jobs = self.jobs.iter_mut().map(|job| &mut job.source);
        let pools = self.pools.iter_mut().map(|pool| &mut pool.source);
        let targets = self.targets.iter_mut().map(|target| &mut target.source);
        for of in jobs.chain(pools).chain(targets) {
            *of = source(of);
        }
    }
}

/// The name of a source as it is kept; None when there is nothing of it.
pub fn source_name(name: &str) -> Option<String> {
    // A slash at the end says that it is a directory.
    let name = name.trim().trim_end_matches('/');
    (!name.is_empty()).then(|| name.to_owned())
}

/// A source whose names have a prefix. No name has a colon, so it is no other prefix's.
pub(super) fn source_with(prefix: &str, source: &str) -> String {
    if prefix.is_empty() {
        return source.to_owned();
    }
    format!("{prefix}:{source}")
}

/// The prefix with which a definition of this name was applied, by its source; nothing where it had none.
pub fn prefix_of<'a>(source: &'a str, name: &str) -> &'a str {
    let prefix = source.split_once(':').map_or("", |(prefix, _)| prefix);
    if name.starts_with(prefix) { prefix } else { "" }
}

/// A definition as the database has it.
pub fn value_of(spec: &impl Serialize) -> Value {
    serde_json::to_value(spec).unwrap_or(Value::Null)
}
