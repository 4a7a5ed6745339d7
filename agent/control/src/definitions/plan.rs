//! What applying job files would do, line by line.

use std::collections::BTreeMap;

use farmhand_store::jobs::{Change, Listed};
use serde::Serialize;
use utoipa::ToSchema;

use super::diff::{Diff, Named, Of};
use super::files::Files;

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

/// What happens to each that may differ.
pub(super) fn steps(diffs: &[Diff], wanted: &Files, present: &[Listed]) -> impl Iterator<Item = Step> {
    let present: BTreeMap<&str, &Listed> = present.iter().map(|job| (job.job_id.as_str(), job)).collect();
    diffs.iter().map(move |diff| {
        let name = diff.of.name();
        let mut step = Step::new(diff.of.clone(), diff.change);
        match diff.of {
            Of::JobId(_) if diff.change == Change::Deleted => {
                step.running_at = present.get(name).and_then(|job| job.running_at.clone());
            }
            Of::JobId(_) => step.keys = diff.keys.keys().cloned().collect(),
            Of::Pool(_) => {
                let pool = wanted.pools.iter().find(|pool| pool.name == name);
                step.size = pool.map(|pool| pool.size);
            }
            Of::Target(_) => {}
        }
        step
    })
}
