//! Which login acts for which node: an option. The database checks it (`schema/bound.sql`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;

use super::db::{Db, stmt};
use super::error::StoreError;

/// A node that only one login acts for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundNode {
    /// The node's address, whether it has been here or not.
    pub address: String,
    /// The only login that acts for it.
    pub login: String,
    pub bound_by: String,
    pub bound_at: Timestamp,
    /// No node of this address has been here yet.
    pub unseen: bool,
    /// Whether that login exists and may log in.
    pub can_log_in: bool,
}

/// Every bound node, in the order of addresses.
pub async fn bound_nodes(db: &Db) -> Result<Vec<BoundNode>, StoreError> {
    db.rows(stmt!("bound_nodes"), &[]).await
}

/// Only `login` acts for the node from now on, and for no other.
/// Errors: There is no such login for agents, it has another node, or the node's agent is connected with another one.
pub async fn bind_node(db: &Db, address: &str, login: &str, by: &str) -> Result<(), StoreError> {
    let _: Option<Value> = db
        .row(
            stmt!("bind_node"),
            &[(&address, Type::TEXT), (&login, Type::TEXT), (&by, Type::TEXT)],
        )
        .await?;
    Ok(())
}

/// Any login that is bound to no node acts for it again; false when it was not bound.
pub async fn unbind_node(db: &Db, address: &str) -> Result<bool, StoreError> {
    let was: Option<Value> = db.row(stmt!("unbind_node"), &[(&address, Type::TEXT)]).await?;
    Ok(was.is_some())
}

/// Errors: This connection's login may not act for the node: `Forbidden`, with a sentence that says why.
pub async fn may_act_as(db: &Db, address: &str) -> Result<(), StoreError> {
    let row: Option<(Option<String>,)> = db.row(stmt!("why_not_as"), &[(&address, Type::TEXT)]).await?;
    match row.and_then(|(why,)| why) {
        None => Ok(()),
        Some(why) => Err(StoreError::Forbidden {
            why,
            fix: Some(
                "give this agent the login of its node, or the --address of its login (`farmhand node ls` shows both)"
                    .to_owned(),
            ),
        }),
    }
}
