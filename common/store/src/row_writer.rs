//! Writes what became of runs into the rows of users' tables: the only place that does so, apart from dispatch.
//!
//! Whoever starts or ends a run only leaves a note (`row_result`). Here notes become updates, each set in a transaction of its
//! own that the server ends after `LIMIT`, one job after the other: a table that hangs costs every other one that long a turn.

use std::collections::HashMap;
use std::time::Duration;

use farmhand_core::document::from_millis;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::db::{Db, Transaction, stmt};
use super::error::StoreError;
use super::tables::check;

/// What the server gives one set, with the triggers of the user's table. The client's bound is only for a server that does not
/// keep its own.
const LIMIT: Duration = Duration::from_secs(5);
const CLIENT_LIMIT: Duration = Duration::from_secs(10);

/// Notes of one set.
const SET: i32 = 50;

enum Written {
    /// So many notes are done with.
    Done,
    /// Another agent is at this job.
    Busy,
    Refused {
        ids: Vec<i64>,
        why: StoreError,
    },
}

#[derive(Deserialize)]
struct Next {
    job_id: Option<String>,
    wait_ms: Option<i64>,
}

#[derive(Deserialize)]
struct Row {
    ids: Vec<i64>,
    writes: String,
}

/// What has to be remembered from one set to the next.
#[derive(Debug, Default)]
pub struct RowWriter {
    /// Of these jobs a set was refused: so many notes are written one by one, to find out which.
    singly: HashMap<String, usize>,
}

impl RowWriter {
    /// Writes all that is ready, job by job in turn, with the login of `rows`; notes are read with that of `db`. Returns how long
    /// until there is more; None: nothing waits.
    pub async fn run_once(&mut self, db: &Db, rows: &Db) -> Result<Option<Duration>, StoreError> {
        loop {
            let (mut visited, mut done) = (Vec::new(), false);
            let wait = loop {
                let next = next(db, &visited).await?;
                let Some(job) = next.job_id else {
                    break next.wait_ms;
                };
                done |= self.one_set(db, rows, &job).await?;
                visited.push(job);
            };
            if !done {
                return Ok(wait.map(from_millis));
            }
        }
    }

    /// Whether anything came of it.
    async fn one_set(&mut self, db: &Db, rows: &Db, job: &str) -> Result<bool, StoreError> {
        let alone = self.singly.get_mut(job).map(|left| {
            *left -= 1;
            *left == 0
        });
        if alone == Some(true) {
            self.singly.remove(job);
        }
        let most = if alone.is_some() { 1 } else { SET };
        match write(db, rows, job, most).await? {
            Written::Done => Ok(true),
            Written::Busy => Ok(false),
            Written::Refused { ids, why } => {
                match *ids {
                    [id] => refused(db, rows, id, &why).await?,
                    _ => {
                        self.singly.insert(job.to_owned(), ids.len());
                    }
                }
                Ok(true)
            }
        }
    }
}

async fn next(db: &Db, visited: &[String]) -> Result<Next, StoreError> {
    db.one(stmt!("rows_next"), &[(&visited, Type::TEXT_ARRAY)]).await
}

async fn write(db: &Db, rows: &Db, job: &str, most: i32) -> Result<Written, StoreError> {
    let mut tx = rows.transaction_within("row_writes", CLIENT_LIMIT).await?;
    tx.batch(&format!(
        "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = '300ms'; SET LOCAL enable_seqscan = on",
        LIMIT.as_millis()
    ))
    .await?;
    let taken: Result<Option<Row>, StoreError> = tx
        .row(stmt!("row_writes"), &[(&job, Type::TEXT), (&most, Type::INT4)])
        .await;
    let taken = match taken {
        Ok(Some(taken)) => taken,
        Ok(None) => {
            tx.rollback().await?;
            return Ok(Written::Busy);
        }
        // A column is gone: which notes are to wait for it is not known, so the oldest are.
        Err(why) if !is_outage(&why) => {
            give_up(tx).await;
            let ids = oldest(db, job, most).await?;
            // Another agent has written them since.
            if ids.is_empty() {
                return Ok(Written::Busy);
            }
            return Ok(Written::Refused { ids, why });
        }
        Err(outage) => return Err(outage),
    };
    match execute(tx, &taken.writes).await {
        Ok(()) => Ok(Written::Done),
        Err(why) if is_outage(&why) => Err(why),
        Err(why) => Ok(Written::Refused { ids: taken.ids, why }),
    }
}

/// At the top of the transaction, so that users' triggers find what they find everywhere else. Deferred ones have their say
/// before the commit: what a commit does, the server does not end in time.
async fn execute(mut tx: Transaction, writes: &str) -> Result<(), StoreError> {
    if !writes.is_empty() {
        for sql in [writes, "SET CONSTRAINTS ALL IMMEDIATE"] {
            if let Err(why) = tx.batch(sql).await {
                give_up(tx).await;
                return Err(why);
            }
        }
    }
    tx.commit().await
}

/// Waits until the server has let go of the job: the next set would be taken for another agent's otherwise.
async fn give_up(tx: Transaction) {
    if let Err(error) = tx.rollback().await {
        tracing::debug!("a set of rows was not rolled back: {error}");
    }
}

async fn oldest(db: &Db, job: &str, most: i32) -> Result<Vec<i64>, StoreError> {
    let rows: Vec<(i64,)> = db
        .rows(stmt!("rows_oldest"), &[(&job, Type::TEXT), (&most, Type::INT4)])
        .await?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}

async fn refused(db: &Db, rows: &Db, id: i64, why: &StoreError) -> Result<(), StoreError> {
    let locked = matches!(why, StoreError::Sql { code, .. }
        if code == SqlState::LOCK_NOT_AVAILABLE.code() || code == SqlState::T_R_DEADLOCK_DETECTED.code());
    let text = match problem(db, rows, id).await {
        Ok(Some(problem)) => problem,
        _ => match why {
            StoreError::Sql { message, .. } => message.clone(),
            other => other.to_string(),
        },
    };
    let _: Vec<Value> = db
        .rows(
            stmt!("row_refused"),
            &[(&id, Type::INT8), (&text, Type::TEXT), (&locked, Type::BOOL)],
        )
        .await?;
    Ok(())
}

/// What the table lacks, as the login sees it that writes.
async fn problem(db: &Db, rows: &Db, id: i64) -> Result<Option<String>, StoreError> {
    let of: Option<(Value,)> = db.row(stmt!("row_table"), &[(&id, Type::INT8)]).await?;
    let Some((table,)) = of else {
        return Ok(None);
    };
    let found = check(rows, &table).await?;
    Ok(found.into_iter().find(|p| p.fatal).map(|p| p.problem))
}

/// Not: an answer too late, or one that a trigger gave. These are the table's.
fn is_outage(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unreachable(_) | StoreError::ConnectionLost { .. }
    )
}
