//! Pools that come with job files, and what each revision of a job needs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};

use super::applied::Blocked;
use super::scope::{Scope, User};
use crate::db::{Transaction, stmt};
use crate::error::StoreError;
use farmhand_core::definition::Needs;

/// A pool as it shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolChange {
    pub name: String,
    /// How many runs may be in it at once.
    pub size: u32,
    /// Where it came from, for people: a file's name.
    pub source: String,
}

#[derive(Deserialize)]
struct Present {
    name: String,
    file_size: u32,
    source: String,
    /// Live runs that name it, the first of them; asked for only to prune.
    runs: Vec<i64>,
    /// The first job that this apply leaves as it is and that names it; asked for only to prune.
    needed_by: Option<User>,
}

/// What an apply does to the pools, which stay locked until its end.
pub(super) struct Plan<'a> {
    present: BTreeMap<String, Present>,
    put: Vec<&'a PoolChange>,
    gone: Vec<String>,
    foreign: Vec<Blocked>,
}

/// Locks the pools and compares; `judged` are the jobs that this apply has or deletes.
pub(super) async fn plan<'a>(
    tx: &mut Transaction,
    wanted: Option<&'a [PoolChange]>,
    scope: &Scope<'_>,
    judged: &[&str],
) -> Result<Plan<'a>, StoreError> {
    let prune = scope.prune && wanted.is_some();
    let present: Vec<Present> = tx
        .rows(
            stmt!("pool_lock"),
            &[(&prune, Type::BOOL), (&judged, Type::TEXT_ARRAY)],
        )
        .await?;
    let present: BTreeMap<String, Present> = present.into_iter().map(|p| (p.name.clone(), p)).collect();
    let wanted = wanted.unwrap_or_default();
    let names: BTreeSet<&str> = wanted.iter().map(|w| w.name.as_str()).collect();
    let differs = |w: &&PoolChange| {
        (present.get(&w.name)).is_none_or(|p| p.file_size != w.size || scope.moves(&p.source, &w.source))
    };
    let foreign = wanted.iter().filter_map(|w| {
        let other = present.get(&w.name)?;
        (other.file_size != w.size && scope.forbids(&other.source)).then(|| Blocked::OtherSource {
            what: "pool",
            name: w.name.clone(),
            source: other.source.clone(),
        })
    });
    let foreign = foreign.collect();
    let gone = (present.values())
        .filter(|p| prune && scope.prunes(&p.source, None) && !names.contains(p.name.as_str()))
        .map(|p| p.name.clone())
        .collect();
    Ok(Plan {
        put: wanted.iter().filter(differs).collect(),
        gone,
        foreign,
        present,
    })
}

impl Plan<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.put.is_empty() && self.gone.is_empty()
    }

    /// Pools of other sources, pools that jobs name and no file has, and pools in use that would go.
    pub(super) fn blocked<'j>(&self, jobs: impl Iterator<Item = (&'j str, &'j Needs)>) -> Vec<Blocked> {
        let known = |pool: &str| {
            self.put.iter().any(|p| p.name == pool)
                || (self.present.contains_key(pool) && !self.gone.iter().any(|gone| gone == pool))
        };
        let mut blocked = self.foreign.clone();
        for (job_id, needs) in jobs {
            for pool in [&needs.pool, &needs.node_pool].into_iter().flatten() {
                if !known(pool) {
                    blocked.push(Blocked::NoPool {
                        job_id: job_id.to_owned(),
                        pool: pool.clone(),
                    });
                }
            }
        }
        for pool in self.gone.iter().filter_map(|gone| self.present.get(gone)) {
            if let Some(by) = &pool.needed_by {
                blocked.push(Blocked::Needed {
                    what: "pool",
                    name: pool.name.clone(),
                    by: by.clone(),
                });
            } else if !pool.runs.is_empty() {
                blocked.push(Blocked::PoolInUse {
                    pool: pool.name.clone(),
                    runs: pool.runs.clone(),
                });
            }
        }
        blocked
    }

    pub(super) async fn store(&self, tx: &mut Transaction, by: &str) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        let _: Vec<Value> = tx
            .rows(
                stmt!("apply_pools"),
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

/// Records what the runs of new revisions need. Before any of them can be made: a run finds its gate here.
pub(super) async fn add_needs<'j>(
    tx: &mut Transaction,
    jobs: impl Iterator<Item = (&'j str, i64, &'j Needs)>,
) -> Result<(), StoreError> {
    #[derive(Debug, Serialize)]
    struct Row<'a> {
        job_id: &'a str,
        rev: i64,
        #[serde(flatten)]
        needs: &'a Needs,
    }
    let rows: Vec<Row<'_>> = jobs
        .map(|(job_id, rev, needs)| Row { job_id, rev, needs })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let _: Vec<Value> = tx.rows(stmt!("add_needs"), &[(&Json(&rows), Type::JSON)]).await?;
    Ok(())
}
