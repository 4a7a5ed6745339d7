//! What applying job files would do, line by line.

use std::collections::{BTreeMap, BTreeSet};

use farmhand_core::definition::differences;
use farmhand_store::jobs::{Listed, Scope};
use serde::Serialize;

use super::apply::{Wanted, value_of};
use super::out;

/// One line of the plan.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    job_id: String,
    pub(super) change: Kind,
    /// What it is called until now.
    #[serde(skip_serializing_if = "Option::is_none")]
    renamed_from: Option<String>,
    /// Keys whose values differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
    /// Of a job to be deleted: where it runs now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) running_at: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Created,
    Updated,
    Unchanged,
    Deleted,
}

pub(super) fn plan(wanted: &[Wanted], present: &[Listed], scope: &Scope<'_>) -> Vec<Step> {
    let mut before: BTreeMap<&str, &Listed> = present.iter().map(|job| (job.job_id.as_str(), job)).collect();
    for (former, name) in scope.renames {
        let old = before.remove(former.as_str());
        before.extend(old.map(|job| (name.as_str(), job)));
    }
    let mut steps: Vec<Step> = wanted
        .iter()
        .map(|job| {
            let keys = before
                .get(job.name.as_str())
                .map(|old| differences(&old.spec, &value_of(&job.spec)));
            let renamed = scope.renames.iter().find(|(_, name)| *name == job.name);
            Step {
                job_id: job.name.clone(),
                renamed_from: renamed.map(|(former, _)| former.clone()),
                change: match &keys {
                    None => Kind::Created,
                    Some(_) if renamed.is_some() => Kind::Updated,
                    Some(keys) if keys.is_empty() => Kind::Unchanged,
                    Some(_) => Kind::Updated,
                },
                keys: keys.unwrap_or_default(),
                running_at: None,
            }
        })
        .collect();
    let kept: BTreeSet<&str> = wanted.iter().map(|job| job.name.as_str()).collect();
    let gone = (before.iter())
        .filter(|(name, job)| scope.prunes(&job.source, Some(&job.job_id)) && !kept.contains(*name))
        .map(|(_, job)| job);
    steps.extend(gone.map(|job| Step {
        job_id: job.job_id.clone(),
        renamed_from: None,
        change: Kind::Deleted,
        keys: Vec::new(),
        running_at: job.running_at.clone(),
    }));
    steps
}

impl Kind {
    pub(super) fn sign(self) -> char {
        match self {
            Self::Created => '+',
            Self::Updated => '~',
            Self::Unchanged => '=',
            Self::Deleted => '-',
        }
    }
}

pub(super) fn show(steps: &[Step]) {
    for step in steps {
        let more = match (&step.running_at, &step.renamed_from) {
            (Some(node), _) => format!("running at {node}"),
            (None, Some(former)) => format!("renamed from {former}  {}", step.keys.join(", ")),
            (None, None) => step.keys.join(", "),
        };
        out::line(format!("{} {}  {more}", step.change.sign(), step.job_id).trim_end());
    }
}

pub(super) fn summary(steps: &[Step], dry_run: bool) -> String {
    let count = |kind| steps.iter().filter(|step| step.change == kind).count();
    let would = if dry_run {
        " (nothing was applied: --dry-run)"
    } else {
        ""
    };
    format!(
        "{} new, {} changed, {} unchanged, {} deleted{would}",
        count(Kind::Created),
        count(Kind::Updated),
        count(Kind::Unchanged),
        count(Kind::Deleted)
    )
}
