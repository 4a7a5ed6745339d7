//! What fell into a pause is recorded when the pause ends, or before the schedule that it is told by is another one. What is due when a
//! job is paused, disabled or deleted is recorded then: it starts no more.

use farmhand_core::definition::{Enabled, JobSpec};
use farmhand_core::due::{self, SkipFold, SkipReason};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio_postgres::types::{Json, Type};

use super::apply::Present;
use crate::db::{Transaction, stmt};
use crate::error::StoreError;

/// A part of one job's pause.
#[derive(Debug, Serialize)]
pub(super) struct Fell<'a> {
    pub(super) job_id: &'a str,
    /// Everything up to this has its outcome then.
    pub(super) until: Option<Timestamp>,
    pub(super) skipped: Vec<SkipFold>,
}

/// Records what fell into pauses, under the revisions that the jobs have, which the caller has locked.
pub(super) async fn record(tx: &mut Transaction, fell: &[Fell<'_>], by: &str) -> Result<(), StoreError> {
    let params = [(&Json(fell) as _, Type::JSON), (&by as _, Type::TEXT)];
    let _: Vec<Value> = tx.rows(stmt!("record_pauses"), &params).await?;
    Ok(())
}

/// The same for those of the jobs that are paused, whose definitions are about to change or to go; and what is due of jobs that are
/// about to stop, for the reason that is given.
pub(super) async fn record_so_far<'a>(
    tx: &mut Transaction,
    jobs: impl IntoIterator<Item = (&'a Present, SkipReason)>,
    by: &str,
) -> Result<(), StoreError> {
    let fell: Vec<Fell<'_>> = (jobs.into_iter())
        .filter_map(|(job, why)| so_far(job, why))
        .collect();
    if fell.is_empty() {
        return Ok(());
    }
    record(tx, &fell, by).await
}

/// Of a schedule that cannot be read any more nothing is known, and one that is disabled has no instants.
fn so_far(job: &Present, why: SkipReason) -> Option<Fell<'_>> {
    if job.deleted || job.overdue.or(job.paused_from).is_none() {
        return None;
    }
    let spec = serde_json::from_value::<JobSpec>(job.spec.clone()).ok();
    let skipped = spec
        .filter(|spec| spec.enabled != Enabled::No)
        .and_then(|spec| due::compile(&job.job_id, &spec).ok())
        .map(|(schedule, policy)| match (job.overdue, job.paused_from) {
            (None, Some(from)) => due::after_pause(&schedule, &policy, from, job.now).1,
            (first, _) => due::not_run(&schedule, &policy, first, why, job.now).1,
        });
    // The first instant that was due is known, whatever has become of the schedule.
    let unread = || job.overdue.map(|at| SkipFold::one(why, at)).into_iter().collect();
    Some(Fell {
        job_id: &job.job_id,
        until: Some(job.now),
        skipped: skipped.unwrap_or_else(unread),
    })
}
