//! The newest epoch, for people; and a next one, which agents open.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::db::{Db, stmt};
use super::error::StoreError;
use farmhand_core::lease::Closed;

/// The newest epoch beside the server that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    pub farm_id: Uuid,
    pub epoch: i64,
    pub id: Uuid,
    /// Claims are open: it names this server.
    pub open: bool,
    pub opened_at: Timestamp,
    pub opened_by: String,
    /// Of the epoch: `farmhand.server()` and the cluster's identifier, which some services do not tell.
    pub server: String,
    pub cluster: Option<String>,
    /// The same of what answers now.
    pub server_now: String,
    pub cluster_now: Option<String>,
    /// The highest within its epoch.
    pub fence: i64,
    pub longest_lease_ms: i64,
    /// The highest that an agent reminded this database of.
    pub seen_epoch: i64,
    /// Opened by an agent that remembered nothing: its number leaves room for epochs that nobody knew of.
    pub guessed: bool,
    /// Whose lease runs by this server's clock, for people: a copy has rows of agents that are gone.
    pub open_nodes: i64,
}

impl Epoch {
    /// The epoch that this reading ends, if server or cluster are others than before.
    pub fn closed(&self) -> Option<Closed> {
        Closed::of(
            (&self.server, self.cluster.as_deref()),
            (&self.server_now, self.cluster_now.as_deref()),
        )
    }
}

/// # Errors
/// The database is away or denies it.
pub async fn newest(db: &Db) -> Result<Epoch, StoreError> {
    db.one(stmt!("epoch"), &[]).await
}

/// Closes claims with a new epoch after the one of this `id`, whose number is above `floor` too. The caller must own the
/// schema. None when that is not the newest any more.
///
/// # Errors
/// The database is away or denies it.
pub async fn bump(db: &Db, id: Uuid, floor: i64, by: &str) -> Result<Option<i64>, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        epoch: i64,
    }
    let row: Option<Row> = db
        .row(
            stmt!("bump_epoch"),
            &[(&id, Type::UUID), (&floor, Type::INT8), (&by, Type::TEXT)],
        )
        .await?;
    Ok(row.map(|row| row.epoch))
}
