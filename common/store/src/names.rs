//! Names, for a shell that completes.

use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::db::{Db, stmt};
use super::error::StoreError;

farmhand_core::words! {
    /// Whose names.
    Names {
        Jobs = "jobs",
        Nodes = "nodes",
        Pools = "pools",
        Runs = "runs",
    }
}

/// A name that can be completed on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Name {
    /// As a command takes it.
    pub name: String,
    pub hint: Option<String>,
}

/// Up to 500 names that begin with `prefix`.
pub async fn names(db: &Db, of: Names, prefix: &str) -> Result<Vec<Name>, StoreError> {
    db.rows(
        stmt!("names"),
        &[(&of.as_str(), Type::TEXT), (&prefix, Type::TEXT)],
    )
    .await
}
