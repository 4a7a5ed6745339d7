//! Nodes, leases and pools.

use axum::extract::State;
use farmhand_control::Refusal;
use farmhand_store::Role;
use farmhand_store::reading::{self, LeaseItem, NodeItem, NodeState, Page, PoolItem};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::query::{PageQuery, paging};
use crate::{App, Json, Path, Problem, Query, Routes};

pub fn router() -> Routes {
    Routes::new()
        .api(Role::Viewer, routes!(nodes))
        .api(Role::Viewer, routes!(node))
        .api(Role::Viewer, routes!(leases))
        .api(Role::Viewer, routes!(pools))
        .api(Role::Viewer, routes!(pool))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct NodesQuery {
    state: Option<NodeState>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
}

/// Nodes in the order of their addresses, each with what it holds
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes", params(NodesQuery),
    responses((status = 200, body = Page<NodeItem>)))]
async fn nodes(
    State(app): State<App>,
    Query(query): Query<NodesQuery>,
) -> Result<Json<Page<NodeItem>>, Problem> {
    let paging = paging(query.cursor, query.limit)?;
    Ok(Json(
        reading::nodes(app.reading.db(), query.state, &paging).await?,
    ))
}

/// A node with its session
#[utoipa::path(get, path = "/api/v1/nodes/{node}", tag = "nodes",
    params(("node" = String, Path, description = "Its address")),
    responses((status = 200, body = NodeItem), (status = 404, body = Problem, description = "There is no such node",
        content_type = "application/problem+json")))]
async fn node(State(app): State<App>, Path(address): Path<String>) -> Result<Json<NodeItem>, Problem> {
    let node = reading::node(app.reading.db(), &address).await?;
    node.map(Json).ok_or_else(|| no_node(&address))
}

/// What is said of an address that no node has; also by pages.
pub fn no_node(address: &str) -> Problem {
    Refusal::not_found(format!("there is no node {address}"))
        .next("/nodes shows the nodes, and /api/v1/nodes lists them for programs")
        .into()
}

/// Sessions that are open or still hold runs, with what they hold
#[utoipa::path(get, path = "/api/v1/leases", tag = "nodes", params(PageQuery),
    responses((status = 200, body = Page<LeaseItem>)))]
async fn leases(
    State(app): State<App>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<LeaseItem>>, Problem> {
    let paging = query.paging()?;
    Ok(Json(reading::leases(app.reading.db(), &paging).await?))
}

/// Pools with who is in them and who waits
#[utoipa::path(get, path = "/api/v1/pools", tag = "pools", params(PageQuery),
    responses((status = 200, body = Page<PoolItem>)))]
async fn pools(
    State(app): State<App>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<PoolItem>>, Problem> {
    let paging = query.paging()?;
    Ok(Json(reading::pools(app.reading.db(), &paging).await?))
}

/// A pool
#[utoipa::path(get, path = "/api/v1/pools/{pool}", tag = "pools",
    params(("pool" = String, Path, description = "Its name")),
    responses((status = 200, body = PoolItem), (status = 404, body = Problem, description = "There is no such pool",
        content_type = "application/problem+json")))]
async fn pool(State(app): State<App>, Path(pool): Path<String>) -> Result<Json<PoolItem>, Problem> {
    let found = reading::pool(app.reading.db(), &pool).await?;
    found.map(Json).ok_or_else(|| no_pool(&pool))
}

/// What is said of a name that no pool has; also by pages.
pub fn no_pool(name: &str) -> Problem {
    Refusal::not_found(format!("there is no pool {name}"))
        .next("/pools shows the pools, and /api/v1/pools lists them for programs")
        .into()
}
