//! What `farmhand doctor` asks the database.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;

use super::db::{Db, stmt};
use super::error::StoreError;
use super::roles::KINDS;

/// The server as this connection sees it; it need not know Farmhand.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Server {
    /// As 150008 for 15.8.
    pub version_num: i32,
    /// As the server tells it to people.
    pub version: String,
    pub encoding: String,
    pub synchronous_commit: String,
    pub synchronous_standby_names: String,
    /// Those that are connected now; 0 as well where this role may not see them.
    pub synchronous_standbys: i64,
    pub standbys: i64,
    /// Those of them of which this role sees no more than that they are there.
    pub hidden_standbys: i64,
    /// What the furthest one behind has not yet on its disk; None also where the server does not tell.
    pub standby_lag_bytes: Option<i64>,
    pub fsync: bool,
    pub full_page_writes: bool,
    pub max_connections: i32,
    /// Connections of anybody to any database.
    pub connections: i64,
    /// Its clock.
    pub now: Timestamp,
    /// Longer than this client is connected when a pooler lent the backend.
    pub backend_age_seconds: f64,
    /// The one that keeps most dead rows; none when there is none.
    pub oldest_snapshot: Option<Snapshot>,
}

/// Something that keeps dead rows from being removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// `session`, `prepared transaction` or `replication slot`.
    pub what: String,
    /// The session, transaction or slot that holds it.
    pub who: String,
    pub transactions: i64,
    /// Of the oldest of all, which may be another one: unknown for replication slots, and for others' sessions without the role
    /// pg_read_all_stats.
    pub seconds: Option<f64>,
}

/// The farm in this database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Farm {
    /// Nodes whose session has not ended.
    pub open_nodes: i64,
    /// Of the open nodes' agents.
    pub versions: Vec<String>,
}

/// Who may do what, as far as it is too much or too little.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rights {
    /// What the names of the farm's roles begin with.
    pub prefix: String,
    /// Those that the cluster has not got.
    pub missing: Vec<String>,
    /// Whether the role for applications is there and may submit.
    pub submitter: bool,
    pub owner: String,
    /// Whether that role is a superuser.
    pub owner_is_superuser: bool,
    /// Logins of connected agents that can change definitions, with the reason in brackets.
    pub wide_agents: Vec<String>,
    /// Objects of the schema on which everybody has a right.
    pub open_to_all: Vec<String>,
    /// Functions of the schema that take their names from the caller's path.
    pub loose_functions: Vec<String>,
    /// Schemas in this login's path in which everybody may create objects.
    pub open_schemas: Vec<String>,
}

/// Errors: The database is away or denies it, or has no Farmhand schema.
pub async fn rights(db: &Db) -> Result<Rights, StoreError> {
    let kinds = &KINDS[..];
    db.one(stmt!("survey_rights"), &[(&kinds, Type::TEXT_ARRAY)])
        .await
}

/// Asks a server, whether or not it has a Farmhand schema.
pub async fn server(db: &Db) -> Result<Server, StoreError> {
    let server: Server = db.one(stmt!("survey_server"), &[]).await?;
    let oldest_snapshot = db.row(stmt!("oldest_snapshot"), &[]).await?;
    Ok(Server {
        standby_lag_bytes: lag(db).await?,
        oldest_snapshot,
        ..server
    })
}

/// Some services deny the function that tells where the server writes, or answer it with an error.
async fn lag(db: &Db) -> Result<Option<i64>, StoreError> {
    match db.row::<(Option<i64>,)>(stmt!("survey_lag"), &[]).await {
        Ok(row) => Ok(row.and_then(|(bytes,)| bytes)),
        Err(error) if error.is_away() => Err(error),
        Err(_) => Ok(None),
    }
}

/// What one of several servers says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Role {
    /// It takes no writes.
    pub standby: bool,
    /// When it was started: the same for two addresses that lead to one server.
    pub server: String,
}

/// Asks a server that may be a standby; see [`DbConfig::of_any_kind`](super::DbConfig::of_any_kind).
pub async fn role(db: &Db) -> Result<Role, StoreError> {
    db.one(stmt!("survey_role"), &[]).await
}

/// Which server process answers this connection. When two open connections get the same, a pooler lends it to one
/// transaction after the other.
pub async fn backend(db: &Db) -> Result<i32, StoreError> {
    let (pid,): (i32,) = db.one(stmt!("survey_backend"), &[]).await?;
    Ok(pid)
}

/// Errors: The database is away or denies it, or has no Farmhand schema.
pub async fn farm(db: &Db) -> Result<Farm, StoreError> {
    db.one(stmt!("survey_farm"), &[]).await
}
