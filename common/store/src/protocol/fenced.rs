//! Writes about attempts: each names run, attempt, fence, address and session, and is told apart from a stale one.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;

use super::claim::Attempt;
use super::session::set;
use crate::db::{Db, Stmt, stmt};
use crate::error::StoreError;
use farmhand_core::run::RunState;

/// What became of one write about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishResult {
    /// It changed the run.
    Done,
    /// A retry or a release whose run ended instead, because its cancelling had been requested or
    /// because it may not be run twice; the final state.
    Ended(RunState),
    /// This very write had taken effect before; its reply was lost.
    AlreadyOwn,
    /// The run moved on: nothing was changed.
    Fenced { now: Now },
    /// The end of a round, whose next one gets no number while claims are closed: nothing was changed; send it again.
    ClaimsClosed,
}

/// How a run stands that is no longer the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    /// It waits to be claimed.
    Due { attempt: i32 },
    /// Another attempt of it is running.
    Running {
        attempt: i32,
        address: String,
        session: i64,
    },
    /// It has ended.
    Final { state: RunState, attempt: i32 },
    /// There is no such run any more.
    Gone,
}

impl fmt::Display for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due { attempt } => write!(f, "due after attempt {attempt}"),
            Self::Running {
                attempt,
                address,
                session,
            } => {
                write!(f, "running on {address}, session {session}, attempt {attempt}")
            }
            Self::Final { state, attempt } => write!(f, "{state} with attempt {attempt}"),
            Self::Gone => f.write_str("gone"),
        }
    }
}

/// The fence, as every write carries it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Key {
    run_id: i64,
    attempt: i32,
    fence: i64,
    address: String,
    session: i64,
}

impl Key {
    pub(super) fn new(of: Attempt, address: &str, session: i64) -> Self {
        Self {
            run_id: of.run_id,
            attempt: of.attempt,
            fence: of.fence,
            address: address.to_owned(),
            session,
        }
    }

    fn attempt(&self) -> Attempt {
        Attempt {
            run_id: self.run_id,
            attempt: self.attempt,
            fence: self.fence,
        }
    }
}

#[derive(Deserialize)]
struct Ended {
    #[serde(flatten)]
    key: Key,
    /// The final state, or None for a run that is due again, or that was to end and has to wait for open claims.
    ended: Option<RunState>,
}

/// What the caller of a write wants of its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// That they end.
    Over,
    /// That they are due again; one that ends instead is told of.
    Again,
}

/// Writes a set, and says record by record what became of it.
pub(super) async fn write<T: Serialize + std::fmt::Debug + Sync>(
    db: &Db,
    statement: Stmt,
    wanted: Wanted,
    records: &[T],
    keys: Vec<Key>,
) -> Result<Vec<(Attempt, FinishResult)>, StoreError> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let changed: Vec<Ended> = db.rows(statement, &[(&set(records), Type::JSON)]).await?;
    // By the whole fence: a set may hold a stale and a fresh attempt of one run.
    let changed: HashMap<Key, Option<RunState>> = changed.into_iter().map(|e| (e.key, e.ended)).collect();
    let missed: Vec<i64> = keys
        .iter()
        .filter(|k| !changed.contains_key(k))
        .map(|k| k.run_id)
        .collect();
    let standing = if missed.is_empty() {
        HashMap::new()
    } else {
        read_back(db, &missed).await?
    };
    Ok(keys
        .into_iter()
        .map(|key| {
            let result = match changed.get(&key) {
                Some(Some(state)) if wanted == Wanted::Again => FinishResult::Ended(*state),
                Some(None) if wanted == Wanted::Over => FinishResult::ClaimsClosed,
                Some(_) => FinishResult::Done,
                None => judge(&key, wanted, standing.get(&key.run_id)),
            };
            (key.attempt(), result)
        })
        .collect())
}

/// What became of a run: where it stands, and which attempts their own holders ended.
#[derive(Deserialize)]
struct Standing {
    run_id: i64,
    state: String,
    attempt: i32,
    address: Option<String>,
    session: Option<i64>,
    own_ends: Vec<OwnEnd>,
}

#[derive(Deserialize)]
struct OwnEnd {
    attempt: i32,
    fence: i64,
    address: String,
    session: i64,
    /// How it ended a run that was to go on.
    ended: Option<RunState>,
}

async fn read_back(db: &Db, runs: &[i64]) -> Result<HashMap<i64, Standing>, StoreError> {
    let rows: Vec<Standing> = db
        .rows(stmt!("read_back", often), &[(&runs, Type::INT8_ARRAY)])
        .await?;
    Ok(rows.into_iter().map(|r| (r.run_id, r)).collect())
}

fn judge(key: &Key, wanted: Wanted, standing: Option<&Standing>) -> FinishResult {
    let Some(s) = standing else {
        return FinishResult::Fenced { now: Now::Gone };
    };
    let own = s.own_ends.iter().find(|e| {
        e.attempt == key.attempt
            && e.fence == key.fence
            && e.address == key.address
            && e.session == key.session
    });
    if let Some(own) = own {
        // The reply that said so may have been lost.
        return match own.ended.filter(|_| wanted == Wanted::Again) {
            Some(state) => FinishResult::Ended(state),
            None => FinishResult::AlreadyOwn,
        };
    }
    let now = match (s.state.parse::<RunState>(), &s.address, s.session) {
        (Ok(state), _, _) if state.is_final() => Now::Final {
            state,
            attempt: s.attempt,
        },
        (_, Some(address), Some(session)) => Now::Running {
            attempt: s.attempt,
            address: address.clone(),
            session,
        },
        (_, _, _) => Now::Due { attempt: s.attempt },
    };
    FinishResult::Fenced { now }
}
