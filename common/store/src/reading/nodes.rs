//! Nodes, leases and pools, as pages show them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::page::{Page, Paging, cursor};
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::pools::Holder;

pub use farmhand_core::health::NodeState;

/// A node and its present or last session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeItem {
    /// The node's address.
    pub address: String,
    /// The machine's name.
    pub name: String,
    /// The present session, or the last one.
    pub session: i64,
    /// Whether that session has not ended.
    pub open: bool,
    /// As commands, page and metrics show it.
    pub state: NodeState,
    /// For people; no decision hangs on it.
    pub lease_until: Timestamp,
    /// How long its lease lasts from a renewal, in milliseconds.
    pub ttl_ms: i64,
    /// How many attempts may run on it at once.
    pub slots: i32,
    /// Runs it holds, in its present session and in those that have ended; at most 1,000 are counted.
    pub running: i64,
    /// Those of them whose session has ended: they take no slot, and are freed soon.
    pub held: i64,
    /// What jobs can ask for.
    pub labels: BTreeMap<String, String>,
    /// The release of its agent.
    pub version: String,
    /// When its session was opened.
    pub started_at: Timestamp,
    /// The database's clock minus the node's, as of its last renewal; for people. None while it is not known.
    pub clock_offset_ms: Option<i64>,
    /// Why the machine refused the run that it was to start last.
    pub cannot_start: Option<String>,
    /// When its last session was ended by another node.
    pub lost_at: Option<Timestamp>,
    /// When what still runs on a draining node is to be ended.
    pub drain_until: Option<Timestamp>,
    /// Who cordoned or drained it last, and when.
    pub withheld_by: Option<String>,
    /// When that was.
    pub withheld_at: Option<Timestamp>,
    /// What it holds, the oldest first; at most 50.
    pub runs: Vec<HeldRun>,
}

impl NodeItem {
    /// Slots that are taken, by runs of its present session.
    pub fn in_use(&self) -> i64 {
        self.running - self.held
    }
}

/// An attempt that a node has under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeldRun {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// Which attempt of the run.
    pub attempt: i32,
    /// The fence of its claim.
    pub fence: i64,
    /// When it was claimed.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub claimed_at: Timestamp,
    /// Whether its cancellation was requested.
    pub cancel_requested: bool,
}

/// A page of nodes in the order of addresses, of one state if one is given.
/// Errors: The database's; `Refused` for a cursor of something else.
pub async fn nodes(db: &Db, state: Option<NodeState>, paging: &Paging) -> Result<Page<NodeItem>, StoreError> {
    let after: Option<String> = paging.after("nodes")?;
    let rows = read(db, None, state, after.as_deref(), paging.rows() + 1).await?;
    Ok(Page::cut(rows, paging.rows(), |node| {
        cursor("nodes", &node.address)
    }))
}

/// The node at an address.
pub async fn node(db: &Db, address: &str) -> Result<Option<NodeItem>, StoreError> {
    Ok(read(db, Some(address), None, None, 1).await?.pop())
}

async fn read(
    db: &Db,
    address: Option<&str>,
    state: Option<NodeState>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<NodeItem>, StoreError> {
    let state = state.map(NodeState::as_str);
    db.rows(
        stmt!("reading_nodes"),
        &[
            (&address, Type::TEXT),
            (&state, Type::TEXT),
            (&after, Type::TEXT),
            (&limit, Type::INT8),
        ],
    )
    .await
}

/// A session that holds runs or could claim some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseItem {
    /// The node that holds it.
    pub address: String,
    /// The number of the node's session.
    pub session: i64,
    /// False for a session that ended and whose runs are not free yet.
    pub open: bool,
    /// The node's state.
    pub state: NodeState,
    /// For people; no decision hangs on it.
    pub lease_until: Timestamp,
    /// How long it lasts from a renewal, in milliseconds.
    pub ttl_ms: i64,
    /// What it holds, in the order of numbers; at most 200.
    pub runs: Vec<HeldRun>,
}

/// A page of open sessions, and of ended ones that still hold runs, in the order of addresses and sessions.
/// Errors: The database's; `Refused` for a cursor of something else.
pub async fn leases(db: &Db, paging: &Paging) -> Result<Page<LeaseItem>, StoreError> {
    let (address, session): (Option<String>, Option<i64>) = paging.after("leases")?.unzip();
    let rows: Vec<LeaseItem> = db
        .rows(
            stmt!("reading_leases"),
            &[
                (&address, Type::TEXT),
                (&session, Type::INT8),
                (&(paging.rows() + 1), Type::INT8),
            ],
        )
        .await?;
    Ok(Page::cut(rows, paging.rows(), |lease| {
        cursor("leases", &(&lease.address, lease.session))
    }))
}

/// A pool and who is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolItem {
    /// What jobs call it.
    pub name: String,
    /// Places on the farm for `pool`, on each node for `node_pool`.
    pub size: u32,
    /// As the job file has it.
    pub file_size: u32,
    /// Where its definition came from: a file's name, or whatever applied it.
    pub source: String,
    /// Who changed its size last.
    pub changed_by: String,
    /// When that was.
    pub changed_at: Timestamp,
    /// Places of the farm that are taken; at most 10,000 are counted.
    pub in_use: i64,
    /// Places of each node that are taken; at most 10,000 of all nodes are counted.
    pub on_nodes: BTreeMap<String, i64>,
    /// Runs in it, the oldest first; at most 200.
    pub holders: Vec<Holder>,
    /// Runs that are ready and have no place; at most 1,000 are counted.
    pub waiting: i64,
    /// Those of them that have waited longest, the longest first; at most 50.
    pub waiters: Vec<PoolWaiter>,
    /// Jobs that name it; at most 200.
    pub jobs: Vec<String>,
}

/// A run that is ready and has no place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolWaiter {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// Since when it could have started.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub ready_at: Timestamp,
}

/// A page of pools in the order of names.
/// Errors: The database's; `Refused` for a cursor of something else.
pub async fn pools(db: &Db, paging: &Paging) -> Result<Page<PoolItem>, StoreError> {
    let after: Option<String> = paging.after("pools")?;
    let rows = read_pools(db, None, after.as_deref(), paging.rows() + 1).await?;
    Ok(Page::cut(rows, paging.rows(), |pool| cursor("pools", &pool.name)))
}

/// The pool of a name.
pub async fn pool(db: &Db, name: &str) -> Result<Option<PoolItem>, StoreError> {
    Ok(read_pools(db, Some(name), None, 1).await?.pop())
}

async fn read_pools(
    db: &Db,
    name: Option<&str>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<PoolItem>, StoreError> {
    db.rows(
        stmt!("reading_pools"),
        &[(&name, Type::TEXT), (&after, Type::TEXT), (&limit, Type::INT8)],
    )
    .await
}
