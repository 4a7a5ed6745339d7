//! The targets of messages of job files, as `farmhand job apply` plans, shows and refuses them.

use farmhand_store::jobs::{Scope, TargetChange};
use farmhand_store::notify::TargetRow;
use serde::Serialize;

use super::apply::Kind;
use super::apply_source::Shared;
use super::{Exit, Failure, out};

/// One line of the plan.
#[derive(Debug, Serialize)]
pub(super) struct TargetStep {
    target: String,
    pub(super) change: Kind,
}

/// What applying would do; `present` is what the farm has.
pub(super) fn plan_targets(
    wanted: &[TargetChange],
    present: &[TargetRow],
    scope: &Scope<'_>,
) -> Vec<TargetStep> {
    let defined = |name: &str| {
        present
            .iter()
            .find(|old| old.name == name)
            .and_then(|t| t.spec.as_ref())
    };
    let step = |target: &TargetChange| TargetStep {
        target: target.name.clone(),
        change: match defined(&target.name) {
            None => Kind::Created,
            Some(old) if *old == target.spec => Kind::Unchanged,
            Some(_) => Kind::Updated,
        },
    };
    let gone = (present.iter())
        .filter(|old| scope.prunes(&old.source, None) && old.spec.is_some())
        .filter(|old| !wanted.iter().any(|target| target.name == old.name))
        .map(|old| TargetStep {
            target: old.name.clone(),
            change: Kind::Deleted,
        });
    wanted.iter().map(step).chain(gone).collect()
}

/// Each target that is there and that applying would change.
pub(super) fn shared_targets<'a>(
    steps: &'a [TargetStep],
    present: &'a [TargetRow],
) -> impl Iterator<Item = Shared<'a>> {
    steps.iter().filter_map(|step| {
        let row = present.iter().find(|row| row.name == step.target)?;
        Some(Shared {
            what: "target",
            name: &row.name,
            source: &row.source,
            jobs: &row.jobs,
            change: step.change,
        })
    })
}

pub(super) fn show_targets(steps: &[TargetStep]) {
    for step in steps {
        out::line(&format!("{} notify {}", step.change.sign(), step.target));
    }
}

pub(super) fn no_target(job_id: &str, target: &str) -> Failure {
    Failure::new(Exit::Refused, "nothing was applied")
        .why(format!("{job_id} notifies {target}, and there is no such target"))
        .next(format!("apply a file with [notify.{target}] first"))
}
