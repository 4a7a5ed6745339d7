//! Pools, as people see and resize them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::acting::Acting;
use super::db::{Db, stmt};
use super::error::StoreError;
use farmhand_core::explain::{Held, Leased};

/// A run that takes a place or a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// The address of the node that runs it.
    pub node: String,
    /// When the run was claimed.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub since: Timestamp,
    /// Whether it takes a place of its node and not of the farm.
    #[serde(default)]
    pub per_node: bool,
}

/// Resizes a pool at once; false for an unknown one. No run is ended by a smaller size.
pub async fn set_pool(acting: &Acting, name: &str, size: u32, by: &str) -> Result<bool, StoreError> {
    let size = i32::try_from(size).unwrap_or(i32::MAX);
    let row: Option<Value> = acting
        .row(
            stmt!("set_pool"),
            &[(&name, Type::TEXT), (&size, Type::INT4), (&by, Type::TEXT)],
        )
        .await?;
    Ok(row.is_some())
}

/// What the runs of one revision of a job need, and who has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GateFacts {
    /// The pool of which they need a place.
    pub pool: Option<String>,
    /// The pool of which they need a place on the node.
    pub node_pool: Option<String>,
    /// The locks that each of them needs alone.
    pub locks: Vec<String>,
    /// How many of them may start within `rate_ms`; none when the job has no rate.
    pub rate_count: Option<i64>,
    /// The period of that rate, in milliseconds.
    pub rate_ms: Option<i64>,
    /// None when there is no such pool any more.
    pub pool_size: Option<i64>,
    /// Places on each node; none when there is no such pool any more.
    pub node_pool_size: Option<i64>,
    /// When the next run may start; None: now.
    pub rate_free_at: Option<Timestamp>,
    /// Running runs that have a place or a lock of these.
    pub holders: Vec<Held>,
    /// Named leases that have one of the locks.
    pub leases: Vec<Leased>,
    /// Whether no place is left for the run, of the farm or on any ready node that may run it.
    pub pool_full: bool,
    /// The first waiting run of each kind that comes before, wants one of the locks and may keep it.
    pub before: Vec<GateWaiter>,
}

/// A waiting run of a job, and the locks that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GateWaiter {
    pub run_id: i64,
    pub job_id: String,
    pub locks: Vec<String>,
}

/// For a waiting run of a job's revision; None when it needs nothing.
pub async fn gate_facts(
    db: &Db,
    job_id: &str,
    rev: i64,
    run_id: i64,
) -> Result<Option<GateFacts>, StoreError> {
    db.row(
        stmt!("gate_facts"),
        &[(&job_id, Type::TEXT), (&rev, Type::INT8), (&run_id, Type::INT8)],
    )
    .await
}
