//! How sessions end, and what becomes of the runs they held.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::fire::Fired;
use crate::LeaseIdentity;
use crate::acting::Acting;
use crate::conn::Param;
use crate::db::{Db, Stmt, Transaction, stmt};
use crate::error::StoreError;

/// Where a freed run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FreedTo {
    /// Anybody may claim it again.
    Due,
    /// `on_lost = "fail"`.
    Lost,
    /// Its cancelling had been requested.
    Cancelled,
    /// Taken over too often (`reason = 'poison'`).
    Failed,
}

/// A run whose holder's session ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freed {
    /// The run that is free or ended.
    pub run_id: i64,
    pub job_id: String,
    pub attempt: i32,
    pub address: String,
    pub session: i64,
    /// The fence of the lost claim.
    pub fence: i64,
    /// How often it was freed to be taken over, this time included.
    pub takeovers: i32,
    pub to: FreedTo,
}

/// The answer to `expire`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expired {
    /// The session ended by this call.
    Done { freed: Vec<Freed> },
    /// It was renewed, the session ended otherwise, or claims are not open.
    Changed,
}

/// Ends a session that was not renewed for a challenger's whole stopwatch, and frees its runs.
///
/// Two statements in one transaction: a claim in flight is not in the first one's snapshot, but has
/// committed or is locked out by the time of the second's. A run that somebody else has locked stays held by the session that
/// is over, until `free_ended` gets it.
pub async fn expire(
    db: &Db,
    address: &str,
    session: i64,
    incarnation: Uuid,
    renewals: i64,
) -> Result<Expired, StoreError> {
    let params: [Param<'_>; 4] = [
        (&address, Type::TEXT),
        (&session, Type::INT8),
        (&incarnation, Type::UUID),
        (&renewals, Type::INT8),
    ];
    let tx = db.transaction("expire").await?;
    end((tx, db), address, stmt!("expire"), &params, Cause::Expired).await
}

/// `expire` by a person who answers for it that nothing of the session lives, whatever its heartbeat.
pub async fn force_expire(acting: &Acting, address: &str, session: i64) -> Result<Expired, StoreError> {
    let params: [Param<'_>; 2] = [(&address, Type::TEXT), (&session, Type::INT8)];
    let tx = acting.transaction("expire").await?;
    end(
        (tx, acting.db()),
        address,
        stmt!("force_expire"),
        &params,
        Cause::Forced,
    )
    .await
}

async fn end(
    (mut tx, db): (Transaction, &Db),
    address: &str,
    statement: Stmt,
    params: &[Param<'_>],
    cause: Cause,
) -> Result<Expired, StoreError> {
    let ended: Option<Value> = tx.row(statement, params).await?;
    if ended.is_none() {
        tx.rollback().await?;
        return Ok(Expired::Changed);
    }
    let mut first = free_and_look(tx, Some(address), cause).await?;
    if first.left {
        // The session has ended whatever becomes of this.
        match free_again(db, Some(address), cause).await {
            Ok(rest) => first.freed.extend(rest.freed),
            Err(error) => {
                tracing::warn!(%error, "what {address} held and somebody has locked waits for the next poll")
            }
        }
    }
    Ok(Expired::Done { freed: first.freed })
}

/// What ended sessions held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreedEnded {
    /// What of it is free or has ended now.
    pub freed: Vec<Freed>,
    /// Somebody has locked some of it: to be asked for again.
    pub left: bool,
}

/// Frees what ended sessions still hold, and what nobody has locked.
pub async fn free_ended(db: &Db) -> Result<FreedEnded, StoreError> {
    let tx = db.transaction("free_ended").await?;
    free_and_look(tx, None, Cause::Expired).await
}

async fn free_and_look(
    mut tx: Transaction,
    address: Option<&str>,
    cause: Cause,
) -> Result<FreedEnded, StoreError> {
    let scope = Scope {
        address,
        cause,
        ..Scope::default()
    };
    let freed = free(&mut tx, scope).await?;
    let held: Option<(bool,)> = tx.row(stmt!("left_held"), &[(&address, Type::TEXT)]).await?;
    tx.commit().await?;
    Ok(FreedEnded {
        freed,
        left: held.is_some_and(|(held,)| held),
    })
}

/// Most locks are over by then; what is not is asked for with each poll of the agent.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

async fn free_again(db: &Db, address: Option<&str>, cause: Cause) -> Result<FreedEnded, StoreError> {
    tokio::time::sleep(AGAIN_AFTER).await;
    let tx = db.transaction("free_ended").await?;
    free_and_look(tx, address, cause).await
}

/// Until then `free` would pass over what somebody else has locked of these.
async fn lock_held(tx: &mut Transaction, address: &str, session: i64) -> Result<(), StoreError> {
    let params: [Param<'_>; 2] = [(&address, Type::TEXT), (&session, Type::INT8)];
    let _: Vec<Value> = tx.rows(stmt!("held_lock"), &params).await?;
    Ok(())
}

/// The answer to `close`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The session ended by this call, and with it everything it held.
    Done { freed: Vec<Freed> },
    /// It had ended before.
    Already,
    /// It holds a run that the caller does not know. Nothing was changed.
    Shared,
}

/// Ends the caller's own session. Only for a holder with nothing left alive.
pub async fn close(db: &Db, me: &LeaseIdentity) -> Result<Closed, StoreError> {
    close_if(db, me, &[], |_| true).await
}

/// The same, unless it holds an attempt that the caller does not know: somebody else may run that under this session.
///
/// To be told by its fence: after an attempt was given back, the next one of its run may be somebody else's. `unstarted` are runs of
/// which the caller has started nothing: they are due again, whatever `on_lost` says.
pub async fn close_if(
    db: &Db,
    me: &LeaseIdentity,
    unstarted: &[i64],
    may_free: impl Fn(&Freed) -> bool,
) -> Result<Closed, StoreError> {
    let mut tx = db.transaction("close").await?;
    let ended: Option<Value> = tx
        .row(
            stmt!("close"),
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.incarnation, Type::UUID),
            ],
        )
        .await?;
    if ended.is_none() {
        tx.commit().await?;
        return Ok(Closed::Already);
    }
    // What it frees is compared with what the caller knows: none may be left out.
    lock_held(&mut tx, &me.address, me.session).await?;
    let freed = free(
        &mut tx,
        Scope {
            address: Some(&me.address),
            session: Some(me.session),
            unstarted,
            ..Scope::default()
        },
    )
    .await?;
    if !freed.iter().all(may_free) {
        // Not committed.
        return Ok(Closed::Shared);
    }
    tx.commit().await?;
    Ok(Closed::Done { freed })
}

/// What is there for `sweep`, `abandon` and `end_late`, and for whoever writes rows of users' tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct LeftOver {
    /// What sessions that have ended hold.
    pub to_free: bool,
    /// Continuous jobs lack rounds.
    pub lacks_rounds: bool,
    pub to_abandon: bool,
    pub too_late: bool,
    pub to_write: bool,
}

impl LeftOver {
    /// Whether a sweep would find anything.
    pub fn to_sweep(self) -> bool {
        self.to_free || self.lacks_rounds
    }
}

/// Looks whether a sweep would find anything: one statement in place of the five of both.
pub async fn left_over(db: &Db, gone_for: Duration) -> Result<LeftOver, StoreError> {
    let seconds = i64::try_from(gone_for.as_secs()).unwrap_or(i64::MAX);
    db.one(stmt!("left_over"), &[(&seconds, Type::INT8)]).await
}

/// Frees what ended sessions still hold (a claim can commit after its session's end),
/// and makes rounds that are missing.
pub async fn sweep(db: &Db) -> Result<Vec<Freed>, StoreError> {
    let mut first = free_ended(db).await?;
    if first.left {
        first
            .freed
            .extend(free_again(db, None, Cause::Expired).await?.freed);
    }
    super::fire::make_missing_rounds(db).await?;
    Ok(first.freed)
}

/// Ends due runs that only one node may run, when it has been closed for `gone_for`, was removed or changed its labels.
/// Returns how many.
pub async fn abandon(db: &Db, gone_for: Duration) -> Result<usize, StoreError> {
    let seconds = i64::try_from(gone_for.as_secs()).unwrap_or(i64::MAX);
    let rows: Vec<Value> = db.rows(stmt!("abandon"), &[(&seconds, Type::INT8)]).await?;
    Ok(rows.len())
}

/// Skips runs that no node claimed within the time that their jobs give.
pub async fn end_late(db: &Db) -> Result<Vec<Fired>, StoreError> {
    db.rows(stmt!("end_late"), &[]).await
}

/// Why held runs are freed; the reason they are due again with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cause {
    /// By the holder itself, with nothing left alive: no takeover.
    #[default]
    Drained,
    Expired,
    Forced,
}

impl Cause {
    fn as_str(self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::Expired => "expired",
            Self::Forced => "forced",
        }
    }
}

#[derive(Default)]
struct Scope<'a> {
    address: Option<&'a str>,
    cause: Cause,
    /// Only what this session held.
    session: Option<i64>,
    unstarted: &'a [i64],
}

async fn free(tx: &mut Transaction, scope: Scope<'_>) -> Result<Vec<Freed>, StoreError> {
    tx.rows(
        stmt!("free"),
        &[
            (&scope.address, Type::TEXT),
            (&(scope.cause != Cause::Drained), Type::BOOL),
            (&scope.session, Type::INT8),
            (&scope.cause.as_str(), Type::TEXT),
            (&scope.unstarted, Type::INT8_ARRAY),
        ],
    )
    .await
}
