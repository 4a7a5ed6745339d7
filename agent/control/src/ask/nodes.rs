//! Nodes, leases and pools.

use farmhand_store::Db;
use farmhand_store::reading::{self, LeaseItem, NodeItem, NodeState, Page, PoolItem};
use serde::Deserialize;
use utoipa::ToSchema;

use super::Question;
use super::parts::paging;
use crate::Refusal;
use crate::nodes::{no_pool, one};

/// Nodes in the order of their addresses, each with what it holds
#[derive(Default, Deserialize, ToSchema)]
pub struct Nodes {
    pub state: Option<NodeState>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[schema(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

impl Question for Nodes {
    const PATH: &'static str = "/api/v1/nodes";
    type Answer = Page<NodeItem>;

    async fn answer(&self, db: &Db) -> Result<Page<NodeItem>, Refusal> {
        let paging = paging(self.cursor.as_ref(), self.limit)?;
        Ok(reading::nodes(db, self.state, &paging).await?)
    }
}

/// A node with its session
#[derive(Deserialize, ToSchema)]
pub struct Node {
    /// Its address
    pub node: String,
}

impl Question for Node {
    const PATH: &'static str = "/api/v1/nodes/{node}";
    type Answer = NodeItem;

    async fn answer(&self, db: &Db) -> Result<NodeItem, Refusal> {
        one(db, &self.node).await
    }
}

/// Sessions that are open or still hold runs, with what they hold
#[derive(Default, Deserialize, ToSchema)]
pub struct Leases {
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[schema(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

impl Question for Leases {
    const PATH: &'static str = "/api/v1/leases";
    type Answer = Page<LeaseItem>;

    async fn answer(&self, db: &Db) -> Result<Page<LeaseItem>, Refusal> {
        let paging = paging(self.cursor.as_ref(), self.limit)?;
        Ok(reading::leases(db, &paging).await?)
    }
}

/// Pools with who is in them and who waits
#[derive(Default, Deserialize, ToSchema)]
pub struct Pools {
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[schema(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

impl Question for Pools {
    const PATH: &'static str = "/api/v1/pools";
    type Answer = Page<PoolItem>;

    async fn answer(&self, db: &Db) -> Result<Page<PoolItem>, Refusal> {
        let paging = paging(self.cursor.as_ref(), self.limit)?;
        Ok(reading::pools(db, &paging).await?)
    }
}

/// A pool
#[derive(Deserialize, ToSchema)]
pub struct Pool {
    /// Its name
    pub pool: String,
}

impl Question for Pool {
    const PATH: &'static str = "/api/v1/pools/{pool}";
    type Answer = PoolItem;

    async fn answer(&self, db: &Db) -> Result<PoolItem, Refusal> {
        (reading::pool(db, &self.pool).await?).ok_or_else(|| no_pool(&self.pool))
    }
}
