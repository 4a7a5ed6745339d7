//! Which job starts which, in words.

use std::collections::BTreeSet;

use farmhand_core::definition::{JobDefinition, StoredJob, check_triggers};
use farmhand_core::document::{Mistakes, Source};
use farmhand_store::jobs::{Listed, Scope};
use farmhand_store::protocol::Triggers;

/// The jobs that its ends start.
pub(super) fn after(triggers: &Triggers) -> String {
    if triggers.children.is_empty() {
        return "-".to_owned();
    }
    let list: Vec<String> = (triggers.children.iter())
        .map(|(child, on)| format!("{child} (on {on})"))
        .collect();
    list.join(", ")
}

/// What only files and stored jobs together show: who triggers whom.
///
/// # Errors
/// Unknown parents and circles.
pub(super) fn check(
    sources: &[Source],
    jobs: &[JobDefinition],
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
    check_triggers(sources, jobs, &stays, &pruned)
}
