//! Which job starts which, over files and stored jobs.

use std::collections::BTreeSet;

use farmhand_core::definition::{JobDefinition, StoredJob, check_triggers};
use farmhand_core::document::{Mistakes, Source};
use farmhand_store::jobs::{Listed, Scope};

/// What only files and stored jobs together show: who triggers whom.
pub(super) fn check(
    sources: &[Source],
    jobs: &[JobDefinition],
    prefix: &str,
    present: &[Listed],
    scope: &Scope<'_>,
) -> Result<(), Mistakes> {
    let files: BTreeSet<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    let others = || present.iter().filter(|job| !files.contains(job.job_id.as_str()));
    let stored = |job: &Listed| StoredJob {
        name: job.job_id.clone(),
        triggered_by: serde_json::from_value(job.spec["triggered_by"].clone()).unwrap_or_default(),
        source: job.source.clone(),
    };
    let stays: Vec<StoredJob> = others()
        .filter(|job| !scope.prunes(&job.source, Some(&job.job_id)))
        .map(stored)
        .collect();
    let pruned: Vec<String> = (others().filter(|job| scope.prunes(&job.source, Some(&job.job_id))))
        .map(|job| job.job_id.clone())
        .collect();
    check_triggers(sources, jobs, prefix, &stays, &pruned)
}
