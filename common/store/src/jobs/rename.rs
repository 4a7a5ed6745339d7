//! Another name for a job, with its history.

use farmhand_core::definition::JobSpec;
use farmhand_core::due;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use super::applied::{Applied, ApplyOutcome, Blocked, Change};
use super::apply::bump;
use super::{edges, targets};
use crate::db::{Db, Transaction, stmt};
use crate::error::StoreError;
use crate::protocol::rounds;

/// Ended runs that get the new name in one transaction.
const AT_ONCE: i32 = 10_000;

/// Gives a job another name, with all that is known of it but its ended runs: those follow by [`move_runs`].
///
/// # Errors
/// The database's; `Refused` for a name that is taken, a job with live runs, and a signed job. `Blocked` when an instant of the
/// former name is overdue that the new name does not have.
pub async fn rename(db: &Db, former: &str, name: &str, by: &str) -> Result<ApplyOutcome, StoreError> {
    let mut tx = db.transaction("rename_job").await?;
    let seq = bump(&mut tx).await?;
    let mut applied = Vec::new();
    if rename_in(&mut tx, (former, name), by, seq, false).await? {
        if let Some(overdue) = reschedule(&mut tx, former, name).await? {
            tx.rollback().await?;
            return Ok(ApplyOutcome::Blocked(vec![overdue]));
        }
        let both = [former, name];
        rounds(&mut tx, &both).await?;
        targets::write_edges(&mut tx, &both).await?;
        let faults = edges::write(&mut tx, &both).await?;
        if !faults.is_empty() {
            tx.rollback().await?;
            return Ok(ApplyOutcome::Refused(faults));
        }
        applied.push(Applied {
            job_id: name.to_owned(),
            rev: 0,
            change: Change::Updated,
            left: None,
        });
    }
    tx.commit().await?;
    Ok(ApplyOutcome::Done { seq, applied })
}

/// The same within a change of definitions, which then writes the edges. False when there is no job of the former name.
pub(super) async fn rename_in(
    tx: &mut Transaction,
    (former, name): (&str, &str),
    by: &str,
    seq: i64,
    signed_anew: bool,
) -> Result<bool, StoreError> {
    let row: Option<(bool,)> = tx
        .row(
            stmt!("rename_job"),
            &[
                (&former, Type::TEXT),
                (&name, Type::TEXT),
                (&by, Type::TEXT),
                (&seq, Type::INT8),
                (&signed_anew, Type::BOOL),
            ],
        )
        .await?;
    Ok(row.is_some_and(|(renamed,)| renamed))
}

/// Where the name decides when a schedule fires, the renamed job is next due by its new name. What is overdue by the former one
/// has to be fired first.
pub(super) async fn reschedule(
    tx: &mut Transaction,
    former: &str,
    name: &str,
) -> Result<Option<Blocked>, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        rev: i64,
        next_run: Timestamp,
        decided_until: Option<Timestamp>,
        spec: Value,
        now: Timestamp,
    }
    let row: Option<Row> = tx.row(stmt!("renamed_job"), &[(&name, Type::TEXT)]).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let of = |name| {
        let spec: JobSpec = serde_json::from_value(row.spec.clone()).ok()?;
        due::compile(name, &spec).ok()
    };
    // Of a definition that this version cannot read nothing changes.
    let (Some((before, _)), Some((after, policy))) = (of(former), of(name)) else {
        return Ok(None);
    };
    if before == after {
        return Ok(None);
    }
    if row.next_run <= row.now {
        return Ok(Some(Blocked::Overdue {
            job_id: former.to_owned(),
            rev: row.rev,
            next_run: row.next_run,
        }));
    }
    let from = row.decided_until.map_or(row.now, |decided| decided.max(row.now));
    let next_run = due::next_run(&after, &policy, from);
    let _: Vec<Value> = tx
        .rows(
            stmt!("set_next_run"),
            &[(&name, Type::TEXT), (&next_run, Type::TIMESTAMPTZ)],
        )
        .await?;
    Ok(None)
}

/// Gives ended runs of renamed jobs the present name, up to ten thousand; returns how many.
pub async fn move_runs(db: &Db) -> Result<i64, StoreError> {
    let row: Option<(i64,)> = db.row(stmt!("move_runs"), &[(&AT_ONCE, Type::INT4)]).await?;
    Ok(row.map_or(0, |(moved,)| moved))
}

/// What a job is called that had this name; None when there is no such job any more.
pub async fn renamed_to(db: &Db, former: &str) -> Result<Option<String>, StoreError> {
    let row: Option<(Option<String>,)> = db.row(stmt!("renamed_to"), &[(&former, Type::TEXT)]).await?;
    Ok(row.and_then(|(name,)| name))
}
