//! Names, for a shell that completes.

use serde::Deserialize;
use tokio_postgres::types::Type;

use super::db::{Db, stmt};
use super::error::StoreError;

/// Whose names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Jobs,
    Nodes,
    Pools,
    Runs,
}

/// A name that can be completed on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Name {
    /// As a command takes it.
    pub name: String,
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
