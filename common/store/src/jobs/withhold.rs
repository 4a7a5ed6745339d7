//! What people ask of a node: cordon, drain, resume, forget it.

use std::time::Duration;

use serde_json::Value;
use tokio_postgres::types::Type;

use crate::acting::Acting;
use crate::db::stmt;
use crate::error::StoreError;
use crate::protocol::{abandon, millis};

/// Something asked of a node; it stands until another takes its place, through restarts of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withhold {
    /// Claim nothing more; what runs goes on.
    Cordon,
    /// As `Cordon`, until nothing runs; what still runs after `within` is ended and runs elsewhere.
    Drain {
        /// How long what runs may go on; without it until it ends by itself.
        within: Option<Duration>,
    },
    /// Take both back.
    Resume,
}

/// Records what is asked of a node, by whom, as an event too; false for an unknown address.
pub async fn withhold(acting: &Acting, address: &str, order: Withhold, by: &str) -> Result<bool, StoreError> {
    let (cordon, drain, within) = match order {
        Withhold::Cordon => (Some(true), Some(false), None),
        Withhold::Drain { within } => (None, Some(true), within),
        Withhold::Resume => (Some(false), Some(false), None),
    };
    let within = within.map(millis);
    let row: Option<Value> = acting
        .row(
            stmt!("set_node"),
            &[
                (&address, Type::TEXT),
                (&cordon, Type::BOOL),
                (&drain, Type::BOOL),
                (&within, Type::INT8),
                (&by, Type::TEXT),
            ],
        )
        .await?;
    Ok(row.is_some())
}

/// Forgets a node whose session is over and that holds nothing, and gives the runs that only it might have run their
/// outcome. False when there is no such node, or it still holds something.
pub async fn remove_node(acting: &Acting, address: &str, by: &str) -> Result<bool, StoreError> {
    let row: Option<Value> = acting
        .row(stmt!("remove_node"), &[(&address, Type::TEXT), (&by, Type::TEXT)])
        .await?;
    if row.is_some() {
        // No node is gone for this long: only what was removed, or has other labels.
        abandon(acting.db(), FOREVER).await?;
    }
    Ok(row.is_some())
}

const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);
