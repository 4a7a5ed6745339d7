//! Targets of messages that come with job files, and which job names which.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};

use super::applied::Blocked;
use super::scope::{Scope, User};
use crate::db::{Transaction, stmt};
use crate::error::StoreError;
use farmhand_core::notify::{TargetSpec, stored};

/// A target as it shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetChange {
    pub name: String,
    pub spec: TargetSpec,
    /// Where it came from, for people: a file's name.
    pub source: String,
}

/// What an apply does to the targets, which stay locked until its end.
pub(super) struct Plan<'a> {
    present: BTreeSet<String>,
    put: Vec<&'a TargetChange>,
    gone: Vec<String>,
    refused: Vec<Blocked>,
}

/// Locks the targets and compares; `judged` are the jobs that this apply has or deletes.
pub(super) async fn plan<'a>(
    tx: &mut Transaction,
    wanted: Option<&'a [TargetChange]>,
    scope: &Scope<'_>,
    judged: &[&str],
) -> Result<Plan<'a>, StoreError> {
    #[derive(Deserialize)]
    struct Present {
        name: String,
        #[serde(deserialize_with = "stored")]
        spec: Option<TargetSpec>,
        source: String,
        /// The first job that this apply leaves as it is and that names it.
        needed_by: Option<User>,
    }
    let prune = scope.prune && wanted.is_some();
    let present: Vec<Present> = tx
        .rows(stmt!("notify_target_lock"), &[(&judged, Type::TEXT_ARRAY)])
        .await?;
    let present: BTreeMap<String, Present> = present.into_iter().map(|p| (p.name.clone(), p)).collect();
    let wanted = wanted.unwrap_or_default();
    let differs = |w: &&TargetChange| {
        (present.get(&w.name))
            .is_none_or(|p| p.spec.as_ref() != Some(&w.spec) || scope.moves(&p.source, &w.source))
    };
    let foreign = wanted.iter().filter_map(|w| {
        let other = present.get(&w.name)?;
        (other.spec.as_ref() != Some(&w.spec) && scope.forbids(&other.source)).then(|| Blocked::OtherSource {
            what: "target",
            name: w.name.clone(),
            source: other.source.clone(),
        })
    });
    let gone =
        |p: &&Present| prune && scope.prunes(&p.source, None) && !wanted.iter().any(|w| w.name == p.name);
    let gone: Vec<&Present> = present.values().filter(gone).collect();
    let needed = gone.iter().filter_map(|p| {
        Some(Blocked::Needed {
            what: "target",
            name: p.name.clone(),
            by: p.needed_by.clone()?,
        })
    });
    Ok(Plan {
        put: wanted.iter().filter(differs).collect(),
        refused: foreign.chain(needed).collect(),
        gone: gone.iter().map(|p| p.name.clone()).collect(),
        present: present.into_keys().collect(),
    })
}

impl Plan<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.put.is_empty() && self.gone.is_empty()
    }

    /// Targets of other sources, those that would go and are needed, and those that jobs name and no file has.
    pub(super) fn blocked<'j>(&self, jobs: impl Iterator<Item = (&'j str, &'j [String])>) -> Vec<Blocked> {
        let known = |target: &String| {
            self.put.iter().any(|p| p.name == *target)
                || (self.present.contains(target) && !self.gone.contains(target))
        };
        let unknown = jobs
            .flat_map(|(job_id, targets)| targets.iter().map(move |target| (job_id, target)))
            .filter(|(_, target)| !known(target))
            .map(|(job_id, target)| Blocked::NoTarget {
                job_id: job_id.to_owned(),
                target: target.clone(),
            });
        self.refused.iter().cloned().chain(unknown).collect()
    }

    pub(super) async fn store(&self, tx: &mut Transaction, by: &str) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        let _: Vec<Value> = tx
            .rows(
                stmt!("notify_apply"),
                &[
                    (&Json(&self.put), Type::JSON),
                    (&by, Type::TEXT),
                    (&self.gone, Type::TEXT_ARRAY),
                ],
            )
            .await?;
        Ok(())
    }
}

/// Writes what these jobs' present definitions say.
pub(super) async fn write_edges(tx: &mut Transaction, jobs: &[&str]) -> Result<(), StoreError> {
    let _: Vec<Value> = tx
        .rows(stmt!("notify_edges"), &[(&jobs, Type::TEXT_ARRAY)])
        .await?;
    Ok(())
}
