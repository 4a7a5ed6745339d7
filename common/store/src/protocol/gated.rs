//! Claims of runs that need a pool, locks or a rate.

use tokio_postgres::types::Type;

use super::claim::{Claimed, claim, read};
use crate::LeaseIdentity;
use crate::db::{Db, stmt};
use crate::error::StoreError;

/// Claims up to `limit` of the runs that wait for pools, locks or rates, with all that each of them needs.
///
/// Places are left to runs without needs that come before. The function in the database says in which order,
/// and how no two callers take the same place.
pub async fn claim_gated(db: &Db, me: &LeaseIdentity, limit: i64) -> Result<Vec<Claimed>, StoreError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let won: Vec<(i64,)> = db
        .rows(
            stmt!("claim_gated"),
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.incarnation, Type::UUID),
                (&limit, Type::INT4),
            ],
        )
        .await?;
    if won.is_empty() {
        return Ok(Vec::new());
    }
    let won: Vec<i64> = won.into_iter().map(|(run_id,)| run_id).collect();
    read(db, me, &won).await
}

/// A claim of which a statement had no answer: it may have won more.
#[derive(Debug)]
pub struct PartialClaim {
    /// To be started all the same.
    pub won: Vec<Claimed>,
    /// Why the rest is not known.
    pub error: StoreError,
}

/// Claims up to `limit` runs of any kind; with `gates`, also of those with needs.
pub async fn claim_any(
    db: &Db,
    me: &LeaseIdentity,
    limit: i64,
    gates: bool,
) -> Result<Vec<Claimed>, PartialClaim> {
    let (mut won, mut failed) = (Vec::new(), None);
    if gates {
        match claim_gated(db, me, limit).await {
            Ok(gated) => won = gated,
            Err(error) => failed = Some(error),
        }
    }
    let left = limit - i64::try_from(won.len()).unwrap_or(limit);
    // One that the database refused has won nothing, and is no reason for the others to wait. Without an answer it may have.
    if left > 0 && !failed.as_ref().is_some_and(StoreError::is_away) {
        match claim(db, me, left, None).await {
            Ok(more) => won.extend(more),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        None => Ok(won),
        Some(error) => Err(PartialClaim { won, error }),
    }
}

#[cfg(test)]
mod tests {
    /// The names of the columns that a statement answers, in their order.
    fn columns(sql: &str) -> Vec<&str> {
        let answer = sql.find("SELECT w.run_id").unwrap() + "SELECT".len();
        let end = sql.find("END AS done").unwrap() + "END AS done".len();
        let mut depth = 0;
        let apart = |c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && depth == 0
        };
        sql[answer..end]
            .split(apart)
            .map(|column| column.trim().rsplit([' ', '.', '\n']).next().unwrap_or_default())
            .collect()
    }

    #[test]
    fn a_run_with_needs_is_answered_like_any_other() {
        let (claim, claimed) = (
            include_str!("../sql/claim.sql"),
            include_str!("../sql/claimed.sql"),
        );
        let names = columns(claim);
        assert!(
            names.starts_with(&["run_id", "job_id"]) && names.ends_with(&["items", "done"]),
            "{names:?}"
        );
        assert_eq!(columns(claimed), names);
    }
}
