//! Deleting jobs by name.

use serde_json::Value;
use tokio_postgres::types::{Json, Type};

use super::applied::{Applied, ApplyOutcome, Change};
use super::apply::{Present, bump};
use super::{edges, pauses, targets};
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::protocol::rounds;
use farmhand_core::due::SkipReason;

/// Deletes jobs; their runs and revisions stay. Unknown and deleted names are left out of the answer.
pub async fn delete(db: &Db, jobs: &[String], by: &str) -> Result<ApplyOutcome, StoreError> {
    let mut tx = db.transaction("delete_job").await?;
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
    let _: Vec<Value> = tx
        .rows(
            stmt!("apply"),
            &[
                (&Json(Vec::<Value>::new()), Type::JSON),
                (&names, Type::TEXT_ARRAY),
                (&seq, Type::INT8),
                (&by, Type::TEXT),
                (&false, Type::BOOL),
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
        })
        .collect();
    rounds(&mut tx, &names).await?;
    tx.commit().await?;
    Ok(ApplyOutcome::Done { seq, applied })
}
