//! The farm at this moment, for a screen that is drawn again and again; and names, for a shell that completes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::Kind;
use super::db::{Db, stmt};
use super::error::StoreError;
use farmhand_core::health::NodeState;

/// One moment; each list holds as many rows as were asked for, the counts count all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    pub db_now: Timestamp,
    pub running: i64,
    /// Runs that could be claimed now.
    pub due: i64,
    /// Runs that wait for another one, a pause or their time.
    pub waiting: i64,
    pub oldest_ready: Option<Timestamp>,
    /// Of open nodes.
    pub slots: i64,
    pub open_nodes: i64,
    /// Open ones first.
    pub nodes: Vec<NodeNow>,
    /// The longest first.
    pub runs: Vec<RunNow>,
    /// In the order in which they are claimed; those that may not be yet, last.
    pub queue: Vec<DueNow>,
    pub next: Vec<NextNow>,
    pub claims_open: bool,
}

/// A node as `farmhand top` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeNow {
    pub address: String,
    pub state: NodeState,
    pub open: bool,
    pub session: i64,
    pub slots: i64,
    pub running: i64,
    /// For people; no decision hangs on it.
    pub lease_until: Timestamp,
    pub ttl_ms: i64,
    pub drain_until: Option<Timestamp>,
    pub labels: BTreeMap<String, String>,
    pub version: String,
}

/// A running attempt as `farmhand top` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunNow {
    pub run_id: i64,
    pub job_id: String,
    pub kind: Kind,
    pub attempt: i32,
    pub node: String,
    pub session: i64,
    pub claimed_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub cancel_requested: bool,
}

/// A due run as `farmhand top` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DueNow {
    pub run_id: i64,
    pub job_id: String,
    pub kind: Kind,
    /// The only node that may run it.
    pub node: Option<String>,
    pub due_at: Timestamp,
    pub ready_at: Timestamp,
    /// What it waits for, if it may not be claimed yet.
    pub gate: Option<String>,
    pub reason: Option<String>,
    pub priority: i32,
}

/// A job's next due instant as `farmhand top` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NextNow {
    pub job_id: String,
    pub next_run: Timestamp,
}

/// Reads the moment, with up to `rows` rows of each list.
pub async fn moment(db: &Db, rows: i64) -> Result<Moment, StoreError> {
    db.row(stmt!("top"), &[(&rows, Type::INT8)])
        .await?
        .ok_or(StoreError::Decode {
            op: "top",
            message: "no row".to_owned(),
        })
}

/// Whose names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Jobs,
    Nodes,
    Pools,
    Runs,
}

/// A name that a shell may complete.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Name {
    pub name: String,
    /// What tells it from others.
    pub hint: Option<String>,
}

/// Up to 500 names that begin with `prefix`.
pub async fn names(db: &Db, of: Names, prefix: &str) -> Result<Vec<Name>, StoreError> {
    let of = match of {
        Names::Jobs => "jobs",
        Names::Nodes => "nodes",
        Names::Pools => "pools",
        Names::Runs => "runs",
    };
    db.rows(stmt!("names"), &[(&of, Type::TEXT), (&prefix, Type::TEXT)])
        .await
}
