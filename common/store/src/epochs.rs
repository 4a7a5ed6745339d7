//! The newest epoch, for people; and a next one, which agents open.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::acting::Acting;
use super::db::{Db, stmt};
use super::error::StoreError;
use super::protocol::raise_sequences;
use farmhand_core::lease::Closed;

/// The newest epoch beside the server that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Tells farms apart; a copy of a database has the same.
    pub farm_id: Uuid,
    /// The epoch's number, the high part of each fence.
    pub epoch: i64,
    /// Tells two epochs apart that copies of one database opened under one number.
    pub id: Uuid,
    /// Claims are open: it names this server.
    pub open: bool,
    /// When it was opened, by the database's clock.
    pub opened_at: Timestamp,
    /// Who opened it: a node, or a person by `farmhand epoch bump`.
    pub opened_by: String,
    /// Of the epoch: `farmhand.server()` and the cluster's identifier, which some services do not tell.
    pub server: String,
    /// The cluster's identifier, as it was when the epoch was opened.
    pub cluster: Option<String>,
    /// The same of what answers now.
    pub server_now: String,
    pub cluster_now: Option<String>,
    /// The highest within its epoch.
    pub fence: i64,
    /// The longest lease that any node ever had, in milliseconds; another server is watched for as long.
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

/// The newest epoch, open or closed.
pub async fn newest(db: &Db) -> Result<Epoch, StoreError> {
    db.one(stmt!("epoch"), &[]).await
}

/// Closes claims with a new epoch after the one of this `id`, whose number is above `floor` too. The caller must own the
/// schema. None when that is not the newest any more.
pub async fn bump(acting: &Acting, id: Uuid, floor: i64, by: &str) -> Result<Option<i64>, StoreError> {
    // On a logical replica the sequences may be behind their rows. The bump writes a row of the audit before any agent has raised them.
    raise_sequences(acting.db(), 0).await?;
    let row: Option<(i64,)> = acting
        .row(
            stmt!("bump_epoch"),
            &[(&id, Type::UUID), (&floor, Type::INT8), (&by, Type::TEXT)],
        )
        .await?;
    Ok(row.map(|(epoch,)| epoch))
}
