//! Deleting jobs by name.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::{Json, Type};

use super::applied::{Applied, ApplyOutcome, Change, Left};
use super::apply::{LIMIT, Present, bump};
use super::{edges, pauses, targets};
use crate::acting::Acting;
use crate::db::{Transaction, stmt};
use crate::error::StoreError;
use crate::protocol::rounds;
use farmhand_core::due::SkipReason;

/// Deletes jobs and withdraws their runs that wait; what runs goes on, history and revisions stay. Unknown and deleted names are left out of the answer.
pub async fn delete(acting: &Acting, jobs: &[String], by: &str) -> Result<ApplyOutcome, StoreError> {
    let mut tx = acting.transaction_within("delete_job", LIMIT).await?;
    let seq = bump(&mut tx).await?;
    let present: Vec<Present> = tx
        .rows(
            stmt!("apply_lock"),
            &[(&jobs, Type::TEXT_ARRAY), (&false, Type::BOOL)],
        )
        .await?;
    let gone: Vec<&Present> = present.iter().filter(|p| !p.deleted).collect();
    if gone.is_empty() {
        tx.rollback().await?;
        return Ok(ApplyOutcome::Done {
            seq: seq - 1,
            applied: Vec::new(),
        });
    }
    let stopped = gone.iter().map(|job| (*job, SkipReason::Withdrawn));
    pauses::record_so_far(&mut tx, stopped, by).await?;
    let names: Vec<&str> = gone.iter().map(|p| p.job_id.as_str()).collect();
    let left = withdraw(&mut tx, &names, by).await?;
    let withdrawn: Vec<i64> = names
        .iter()
        .map(|name| left.get(*name).map_or(0, |left| left.withdrawn))
        .collect();
    let _: Vec<Value> = tx
        .rows(
            stmt!("apply"),
            &[
                (&Json(Vec::<Value>::new()), Type::JSON),
                (&names, Type::TEXT_ARRAY),
                (&seq, Type::INT8),
                (&by, Type::TEXT),
                (&false, Type::BOOL),
                (&withdrawn, Type::INT8_ARRAY),
            ],
        )
        .await?;
    targets::write_edges(&mut tx, &names).await?;
    let faults = edges::write(&mut tx, &names).await?;
    if !faults.is_empty() {
        tx.rollback().await?;
        return Ok(ApplyOutcome::Refused(faults));
    }
    let applied = gone
        .iter()
        .map(|p| Applied {
            job_id: p.job_id.clone(),
            rev: p.rev,
            change: Change::Deleted,
            left: left.get(&p.job_id).copied(),
        })
        .collect();
    rounds(&mut tx, &names).await?;
    tx.commit().await?;
    Ok(ApplyOutcome::Done { seq, applied })
}

/// Ends what waits of these jobs, which are locked and are deleted or made anew, and says what is left of each. A submission that
/// is under way, or a run that is taken over later, waits beyond that: whoever makes a job of the name again withdraws it then.
pub(super) async fn withdraw(
    tx: &mut Transaction,
    jobs: &[&str],
    by: &str,
) -> Result<BTreeMap<String, Left>, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        job_id: String,
        #[serde(flatten)]
        left: Left,
    }
    if jobs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let params = [(&jobs as _, Type::TEXT_ARRAY), (&by as _, Type::TEXT)];
    let rows: Vec<Row> = tx.rows(stmt!("withdraw"), &params).await?;
    Ok(rows.into_iter().map(|row| (row.job_id, row.left)).collect())
}
