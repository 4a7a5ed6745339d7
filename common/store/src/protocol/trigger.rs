//! Ends of jobs become runs of those that they trigger.
//!
//! Every statement that ends a run leaves a row in `triggering` for each job that it may trigger, so none is lost.
//! `settle` turns them into runs, or into records of why there are none: in one transaction that first locks the
//! triggered job's row, so that of two parents which end at once the second to be settled sees both.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_postgres::types::{Json, Type};

use super::fire::{Fired, Made, Want, make};
use crate::db::{Db, Transaction, stmt};
use crate::error::StoreError;
use farmhand_core::explain::{TriggerWait, Triggering};
use farmhand_core::making::Maker;
use farmhand_core::trigger::{Child, Decision, Firing};

/// Jobs settled by one transaction at most.
const SET: i64 = 100;

/// Firings of one job by one transaction at most.
const ROUNDS: usize = 50;
/// No other begins after this time. With a thousand ends that wait, each takes half a second.
const TIME: Duration = Duration::from_secs(1);

/// Deals with the ends of `parents`, or, without any, with all ends that nobody has dealt with and those that have
/// waited for a while.
pub async fn settle(db: &Db, parents: Option<&[String]>) -> Result<Vec<Fired>, StoreError> {
    if parents.is_none() {
        super::fire::settle_pending(db).await?;
    }
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let mut tx = db.transaction("settle").await?;
        // The locks first: the next statement's snapshot then has what whoever held them did.
        let locked: Vec<(String,)> = tx
            .rows(
                stmt!("trigger_lock"),
                &[
                    (&parents, Type::TEXT_ARRAY),
                    (&SET, Type::INT8),
                    (&after, Type::TEXT),
                ],
            )
            .await?;
        let names: Vec<String> = locked.into_iter().map(|(job_id,)| job_id).collect();
        let mut more = false;
        if !names.is_empty() {
            more = rounds(&mut tx, &names, &mut all).await?;
        }
        tx.commit().await?;
        if more {
            continue;
        }
        match names.into_iter().last() {
            Some(last) => after = last,
            None => return Ok(all),
        }
    }
}

/// One firing of each job after the other, since each sees what the one before it made. True when there is more.
async fn rounds(tx: &mut Transaction, names: &[String], all: &mut Vec<Fired>) -> Result<bool, StoreError> {
    let began = Instant::now();
    for _ in 0..ROUNDS {
        if began.elapsed() > TIME {
            break;
        }
        let children: Vec<Child> = tx
            .rows(stmt!("trigger_facts"), &[(&names, Type::TEXT_ARRAY)])
            .await?;
        let mut firings: Vec<Firing> = Vec::new();
        let (mut done, mut waits): (Vec<i64>, Vec<Value>) = (Vec::new(), Vec::new());
        for child in &children {
            for (id, decision) in child.decide() {
                match decision {
                    Decision::Drop => done.push(id),
                    Decision::Wait(on) => waits.push(json!({"id": id, "waits": on})),
                    Decision::Fire(firing) => {
                        done.extend(&firing.ends);
                        firings.push(firing);
                    }
                }
            }
        }
        if !done.is_empty() || !waits.is_empty() {
            let _: Vec<Value> = tx
                .rows(
                    stmt!("trigger_settle"),
                    &[(&done, Type::INT8_ARRAY), (&Json(&waits), Type::JSON)],
                )
                .await?;
        }
        if firings.is_empty() {
            return Ok(false);
        }
        let wants: Vec<Want<'_>> = (firings.iter())
            .map(|firing| Want {
                params: Some(&firing.params),
                made: Some(Made {
                    parent_run: firing.parent_run,
                    parents: &firing.parents,
                    by_hand: firing.by_hand.then_some(true),
                }),
                ..Want::one(&firing.job_id, firing.due_at, firing.skip.as_deref())
            })
            .collect();
        all.extend(make(tx, Maker::Trigger, &wants).await?);
    }
    Ok(true)
}

/// What triggers a job, what waits for it, and what it triggers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Triggers {
    /// The jobs whose ends trigger it.
    pub parents: Vec<Triggering>,
    /// Ends of parents that have started no run of it yet.
    pub waiting: Vec<TriggerWait>,
    /// Names, with `trigger_on`.
    pub children: BTreeMap<String, String>,
}

/// Reads a job's triggers.
pub async fn triggers(db: &Db, job_id: &str) -> Result<Triggers, StoreError> {
    let row = db.row(stmt!("triggers"), &[(&job_id, Type::TEXT)]).await?;
    Ok(row.unwrap_or_default())
}
