//! Why a job does not run, of what the database knows.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use super::nodes::NodeState;
use super::page::every;
use super::run::{RunRow, run_row};
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::jobs::{self, Listed, RevisionItem, revisions_before};
use crate::pools::{GateFacts, gate_facts};
use crate::protocol;

use farmhand_core::definition::{JobSpec, Rate};
use farmhand_core::document::from_millis;
use farmhand_core::explain::{Explanation, Facts, Known, Live, Needed, Node, Outcome, Paused, subject};

/// Walks the gates that a run of a job passes, for the due instant `at`, or for now.
/// Errors: The database's; `Refused` for a definition that a newer version wrote.
pub async fn explain(db: &Db, name: &str, at: Option<Timestamp>) -> Result<Explanation, StoreError> {
    Ok(farmhand_core::explain::explain(&facts(db, name, at, None).await?))
}

/// The same for one run: where it runs, the gates that it waits at, or what became of it.
pub async fn explain_run(db: &Db, run: &RunRow) -> Result<Explanation, StoreError> {
    let mut facts = facts(db, &run.job_id, Some(run.due_at), Some(run.run_id)).await?;
    if let Some(known) = &mut facts.known {
        // Other runs may be for the same instant.
        known.outcomes.clear();
        if known.live.iter().all(|live| live.run_id != run.run_id) {
            // It may have ended since it was read.
            let ended = run_row(db, run.run_id).await?;
            known.outcomes.push(outcome(ended.unwrap_or_else(|| run.clone())));
        }
    }
    Ok(farmhand_core::explain::explain(&facts))
}

fn outcome(run: RunRow) -> Outcome {
    Outcome {
        run_id: run.run_id,
        state: run.state,
        reason: run.reason,
        first_due: run.first_due,
        finished_at: run.finished_at,
        running_at: run.running_at,
        attempt: run.attempt,
    }
}

#[derive(Deserialize)]
struct Clock {
    db_now: Timestamp,
    claims_open: bool,
}

async fn facts(db: &Db, name: &str, at: Option<Timestamp>, run: Option<i64>) -> Result<Facts, StoreError> {
    let row = match jobs::job(db, name).await? {
        None if run.is_some() => (jobs::revisions(db, name, 1).await?.pop()).map(|last| deleted(name, last)),
        row => row,
    };
    let status: Clock = db.one(stmt!("reading_clock"), &[]).await?;
    let nodes = every(|paging| async move { super::nodes(db, None, &paging).await }).await?;
    let known = match row {
        Some(row) => Some(known(db, &row, at, run, status.db_now).await?),
        None => None,
    };
    Ok(Facts {
        job: name.to_owned(),
        now: status.db_now,
        at,
        run,
        known,
        nodes: (nodes.items.into_iter())
            .map(|node| Node {
                running: node.in_use(),
                address: node.address,
                slots: node.slots.into(),
                labels: node.labels,
                since: match node.open {
                    true => node.withheld_at.filter(|_| node.state != NodeState::Blocked),
                    false => Some(node.lease_until),
                },
                state: node.state,
                session: node.session,
                lost_at: node.lost_at,
                by: node.withheld_by,
                cannot_start: node.cannot_start,
            })
            .collect(),
        claims_open: status.claims_open,
    })
}

/// What is left of a job that was deleted: runs of it may go on.
fn deleted(name: &str, last: RevisionItem) -> Listed {
    Listed {
        job_id: name.to_owned(),
        rev: last.rev,
        enabled: true,
        observe: false,
        paused: false,
        paused_by: None,
        paused_at: None,
        pause_reason: None,
        scheduled: false,
        next_run: None,
        decided_until: None,
        source: last.source,
        applied_by: last.applied_by,
        applied_at: last.applied_at,
        spec: last.spec,
        running_at: None,
    }
}

async fn known(
    db: &Db,
    row: &Listed,
    at: Option<Timestamp>,
    run: Option<i64>,
    now: Timestamp,
) -> Result<Known, StoreError> {
    let first = jobs::instants_known(db, &row.job_id).await?;
    let outcomes = match at {
        Some(at) => runs_at(db, &row.job_id, at).await?,
        None => Vec::new(),
    };
    let live = live_runs(db, &row.job_id, run).await?;
    let subject = subject(&live, at, run);
    let needed = match subject {
        Some(run) => gate_facts(db, &row.job_id, run.rev, run.run_id).await?,
        None => None,
    };
    let made_from = match subject.filter(|run| run.rev != row.rev) {
        Some(run) => revisions_before(db, &row.job_id, Some(run.rev + 1), 1)
            .await?
            .pop(),
        None => None,
    };
    let triggers = protocol::triggers(db, &row.job_id).await?;
    Ok(Known {
        spec: spec(&row.job_id, &row.spec)?,
        made_from: (made_from.map(|made| spec(&row.job_id, &made.spec))).transpose()?,
        since: first.map_or(row.applied_at, |known| known.first_applied),
        applied_at: row.applied_at,
        paused: row.paused.then(|| Paused {
            by: row.paused_by.clone(),
            at: row.paused_at,
            reason: row.pause_reason.clone(),
        }),
        next_run: row.next_run,
        decided_until: row.decided_until,
        outcomes: outcomes.into_iter().map(outcome).collect(),
        live,
        needed: needed.map(|facts| need(facts, now)),
        triggers: triggers.parents,
        waiting: triggers.waiting,
    })
}

/// What is recorded for one due instant of a job's schedule: its runs, or the fold it was skipped in.
async fn runs_at(db: &Db, job_id: &str, due_at: Timestamp) -> Result<Vec<RunRow>, StoreError> {
    let params = [(&job_id as _, Type::TEXT), (&due_at as _, Type::TIMESTAMPTZ)];
    db.rows(stmt!("runs_at"), &params).await
}

/// The runs of a job that have not ended, the oldest instant first; at most 1,000, and the one that is named.
pub async fn live_runs(db: &Db, job_id: &str, named: Option<i64>) -> Result<Vec<Live>, StoreError> {
    let params = [(&job_id as _, Type::TEXT), (&named as _, Type::INT8)];
    db.rows(stmt!("live_runs"), &params).await
}

pub(super) fn need(facts: GateFacts, now: Timestamp) -> Needed {
    let rate = facts.rate_count.zip(facts.rate_ms).map(|(count, ms)| {
        Rate {
            count: u32::try_from(count).unwrap_or(u32::MAX),
            window: from_millis(ms),
        }
        .to_string()
    });
    Needed {
        now,
        pool: facts.pool,
        pool_size: facts.pool_size,
        node_pool: facts.node_pool,
        node_pool_size: facts.node_pool_size,
        pool_full: facts.pool_full,
        locks: facts.locks,
        rate,
        rate_free_at: facts.rate_free_at,
        holders: facts.holders,
        leases: facts.leases,
        before: (facts.before.into_iter())
            .map(|run| (run.run_id, run.job_id))
            .next(),
    }
}

fn spec(job_id: &str, stored: &Value) -> Result<JobSpec, StoreError> {
    JobSpec::deserialize(stored).map_err(|error| {
        StoreError::Refused(format!(
            "the definition of {} cannot be read ({error}): a newer version may have applied it, use that one",
            job_id
        ))
    })
}
