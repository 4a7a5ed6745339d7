//! When nodes were without the database.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::lanes::Window;
use crate::db::{Db, stmt};
use crate::error::StoreError;

/// The database did not answer a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Outage {
    /// The node that was not answered.
    pub node: String,
    /// When it began.
    pub from: Timestamp,
    /// When the database answered again.
    pub to: Timestamp,
}

pub(super) async fn outages(db: &Db, window: &Window) -> Result<Vec<Outage>, StoreError> {
    db.rows(
        stmt!("reading_outages"),
        &[
            (&window.from, Type::TIMESTAMPTZ),
            (&window.to, Type::TIMESTAMPTZ),
            (&window.nodes, Type::TEXT_ARRAY),
        ],
    )
    .await
}
