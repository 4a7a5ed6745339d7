//! What people ask of a node: cordon, drain, resume.

use std::time::Duration;

use serde_json::Value;
use tokio_postgres::types::Type;

use crate::db::{Db, stmt};
use crate::error::StoreError;

/// Something asked of a node; it stands until another takes its place, through restarts of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withhold {
    /// Claim nothing more; what runs goes on.
    Cordon,
    /// As `Cordon`, until nothing runs; what still runs after `within` is ended and runs elsewhere.
    Drain { within: Option<Duration> },
    /// Take both back.
    Resume,
}

/// Records what is asked of a node, by whom, as an event too; false for an unknown address.
pub async fn withhold(db: &Db, address: &str, order: Withhold, by: &str) -> Result<bool, StoreError> {
    let (cordon, drain, within) = match order {
        Withhold::Cordon => (Some(true), None, None),
        Withhold::Drain { within } => (None, Some(true), within),
        Withhold::Resume => (Some(false), Some(false), None),
    };
    let within = within.map(|w| i64::try_from(w.as_millis()).unwrap_or(i64::MAX));
    let row: Option<Value> = db
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
