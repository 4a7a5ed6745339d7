//! Who vouches for revisions, and which nodes would not run them.

pub use farmhand_core::attempt::Signed;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};
use utoipa::ToSchema;

use super::db::{Db, Transaction, stmt};
use super::error::StoreError;
use farmhand_core::attempt::Claimed;

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    job_id: String,
    rev: i64,
    #[serde(flatten)]
    signed: Signed,
}

/// Stores signatures with their revisions, in the transaction that makes these.
pub(super) async fn sign(
    tx: &mut Transaction,
    signed: &[(&str, i64, &Signed)],
    by: &str,
) -> Result<usize, StoreError> {
    if signed.is_empty() {
        return Ok(0);
    }
    let rows: Vec<Row> = signed
        .iter()
        .map(|(job_id, rev, signed)| Row {
            job_id: (*job_id).to_owned(),
            rev: *rev,
            signed: (*signed).clone(),
        })
        .collect();
    let put: Vec<Value> = tx
        .rows(stmt!("sign"), &[(&Json(&rows), Type::JSON), (&by, Type::TEXT)])
        .await?;
    Ok(put.len())
}

/// Adds to claimed runs what is stored about their revisions.
pub async fn with_signatures(db: &Db, mut claimed: Vec<Claimed>) -> Result<Vec<Claimed>, StoreError> {
    let (jobs, revs): (Vec<&str>, Vec<i64>) = claimed.iter().map(|c| (c.job_id.as_str(), c.rev)).unzip();
    if jobs.is_empty() {
        return Ok(claimed);
    }
    let rows = of(db, &jobs, &revs).await?;
    for run in &mut claimed {
        let found = rows.iter().find(|r| r.job_id == run.job_id && r.rev == run.rev);
        run.signed = found.map(|r| r.signed.clone());
    }
    Ok(claimed)
}

async fn of(db: &Db, jobs: &[&str], revs: &[i64]) -> Result<Vec<Row>, StoreError> {
    db.rows(
        stmt!("signatures"),
        &[(&jobs, Type::TEXT_ARRAY), (&revs, Type::INT8_ARRAY)],
    )
    .await
}

/// The signatures of these revisions, in no order; revisions without one are left out.
pub async fn signatures(db: &Db, of_revs: &[(String, i64)]) -> Result<Vec<Signed>, StoreError> {
    let (jobs, revs): (Vec<&str>, Vec<i64>) = of_revs.iter().map(|(job, rev)| (job.as_str(), *rev)).unzip();
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    Ok(of(db, &jobs, &revs)
        .await?
        .into_iter()
        .map(|r| r.signed)
        .collect())
}

/// Records that `address` would not run the revision of a run that it holds. Answers whether another node that is
/// ready has not refused it in the last ten minutes.
pub async fn refuse(
    db: &Db,
    run_id: i64,
    attempt: i32,
    address: &str,
    why: &str,
) -> Result<bool, StoreError> {
    let answer: Option<(bool,)> = db
        .row(
            stmt!("refuse"),
            &[
                (&run_id, Type::INT8),
                (&attempt, Type::INT4),
                (&address, Type::TEXT),
                (&why, Type::TEXT),
            ],
        )
        .await?;
    Ok(answer.is_some_and(|(others,)| others))
}

/// The keys of `address` changed: its refusals hold no longer. Answers how many there were.
pub async fn forget_refusals(db: &Db, address: &str) -> Result<usize, StoreError> {
    let gone: Vec<Value> = db
        .rows(stmt!("forget_refusals"), &[(&address, Type::TEXT)])
        .await?;
    Ok(gone.len())
}

/// A node that would not run a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NodeRefusal)]
pub struct Refusal {
    /// The revision that it would not run.
    pub rev: i64,
    pub address: String,
    /// What it said about the definition, the last time.
    pub why: String,
    pub runs: i64,
    /// When it refused the first of them.
    pub first_at: Timestamp,
    /// When it refused the last of them.
    pub at: Timestamp,
}

/// Who refused a job's revisions in the last day, the latest first; at most 100.
pub async fn refusals(db: &Db, job_id: &str) -> Result<Vec<Refusal>, StoreError> {
    db.rows(stmt!("refusals"), &[(&job_id, Type::TEXT)]).await
}
