//! Which job triggers which, as a table that follows the definitions.

use std::collections::BTreeMap;

use serde::Deserialize;
use tokio_postgres::types::Type;

use crate::db::{Transaction, stmt};
use crate::error::StoreError;
use farmhand_core::definition::{TriggerFault, trigger_faults};

#[derive(Deserialize)]
struct Edge {
    parent: String,
    child: String,
    known: bool,
    /// One of several parents, and continuous.
    endless: bool,
}

/// Writes what these jobs' present definitions say, and tells what is wrong with the whole then. Applies wait for
/// each other, so nothing changes between this and the commit.
pub(super) async fn write(tx: &mut Transaction, jobs: &[&str]) -> Result<Vec<TriggerFault>, StoreError> {
    let _: Vec<serde_json::Value> = tx
        .rows(stmt!("trigger_edges"), &[(&jobs, Type::TEXT_ARRAY)])
        .await?;
    let edges: Vec<Edge> = tx.rows(stmt!("trigger_graph"), &[]).await?;
    let mut parents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in &edges {
        parents.entry(&edge.child).or_default().push(&edge.parent);
        if edge.known {
            parents.entry(&edge.parent).or_default();
        }
    }
    let mut faults = trigger_faults(&parents);
    // Only for jobs of this change: one that is stored already must not block the changes of others.
    let touched = |edge: &&Edge| {
        edge.endless && (jobs.contains(&edge.child.as_str()) || jobs.contains(&edge.parent.as_str()))
    };
    faults.extend(edges.iter().filter(touched).map(|edge| TriggerFault::Endless {
        child: edge.child.clone(),
        parent: edge.parent.clone(),
    }));
    Ok(faults)
}
