//! A node's lease: opened, renewed, ended.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;

use crate::Me;
use crate::db::{Db, stmt};
use crate::error::StoreError;

/// What a node says about itself when it opens a session.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    pub address: String,
    pub name: String,
    /// Random for each opened session; kept across retries of one open.
    pub life: Uuid,
    pub ttl: Duration,
    pub slots: i32,
    /// A JSON object of strings.
    pub labels: Value,
    pub version: String,
}

/// The answer to `open`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The session is ours, also when an earlier reply was lost.
    Session(i64),
    /// Another life holds the address: watch its beat like any challenger.
    Taken {
        session: i64,
        life: Uuid,
        beat: i64,
        ttl_ms: i64,
    },
    /// The server is on a timeline that nobody has opened yet.
    TimelineClosed,
}

/// Opens a session, or finds the one that this very `life` opened.
pub async fn open(db: &Db, node: &NodeInfo) -> Result<Opened, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        session: i64,
    }
    let row: Option<Row> = db
        .row(
            stmt!("open"),
            &[
                (&node.address, Type::TEXT),
                (&node.name, Type::TEXT),
                (&node.life, Type::UUID),
                (&millis(node.ttl), Type::INT8),
                (&node.slots, Type::INT4),
                (&node.labels, Type::JSONB),
                (&node.version, Type::TEXT),
            ],
        )
        .await?;
    match row {
        Some(row) => Ok(Opened::Session(row.session)),
        None => match node_row(db, &node.address).await? {
            Some(row) => Ok(Opened::Taken {
                session: row.session,
                life: row.life,
                beat: row.beat,
                ttl_ms: row.ttl_ms,
            }),
            None => Ok(Opened::TimelineClosed),
        },
    }
}

/// Goes on with a session whose wardens live, as `node` says of itself now. False when it is over: nothing is opened.
pub async fn readopt(db: &Db, session: i64, node: &NodeInfo) -> Result<bool, StoreError> {
    let row: Option<Value> = db
        .row(
            stmt!("readopt"),
            &[
                (&node.address, Type::TEXT),
                (&session, Type::INT8),
                (&node.life, Type::UUID),
                (&node.name, Type::TEXT),
                (&millis(node.ttl), Type::INT8),
                (&node.slots, Type::INT4),
                (&node.labels, Type::JSONB),
                (&node.version, Type::TEXT),
            ],
        )
        .await?;
    Ok(row.is_some())
}

#[derive(Deserialize)]
struct NodeRow {
    session: i64,
    life: Uuid,
    beat: i64,
    ttl_ms: i64,
}

/// The open session of an address, on a timeline that is open.
async fn node_row(db: &Db, address: &str) -> Result<Option<NodeRow>, StoreError> {
    db.row(stmt!("open_taken"), &[(&address, Type::TEXT)]).await
}

/// A run held by a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub run_id: i64,
    pub attempt: i32,
    /// Tells a claim that a failover lost from the one that was given its number again.
    pub fence: i64,
    /// Somebody wants it cancelled.
    pub cancel: bool,
}

/// The answer to `renew`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease is extended; `held` is what the session held in the same snapshot.
    Alive {
        held: Vec<Held>,
        cordoned: bool,
        draining: bool,
        /// When what still runs here is to be ended, while draining.
        drain_until: Option<Timestamp>,
        db_now: Timestamp,
        /// The timeline of the server that answered.
        tli: i64,
    },
    /// The session ended: kill now.
    Lost,
}

/// One renewal, however many runs are held. `clock_offset_ms` is kept for people to read: the database's clock minus the
/// caller's, None while it is not known.
pub async fn renew(
    db: &Db,
    me: &Me,
    ttl: Duration,
    clock_offset_ms: Option<i64>,
) -> Result<Renewed, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        held: Vec<Held>,
        cordoned: bool,
        draining: bool,
        drain_until: Option<Timestamp>,
        db_now: Timestamp,
        tli: i64,
    }
    let row: Option<Row> = db
        .row(
            stmt!("renew", often),
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.life, Type::UUID),
                (&millis(ttl), Type::INT8),
                (&clock_offset_ms, Type::INT8),
            ],
        )
        .await?;
    Ok(row.map_or(Renewed::Lost, |row| Renewed::Alive {
        held: row.held,
        cordoned: row.cordoned,
        draining: row.draining,
        drain_until: row.drain_until,
        db_now: row.db_now,
        tli: row.tli,
    }))
}

/// The server's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Timeline {
    pub tli: i64,
    pub open: bool,
    /// The longest lease that the farm remembers.
    pub longest_ms: i64,
}

/// Which timeline the server is on, and whether it is open.
pub async fn timeline(db: &Db) -> Result<Timeline, StoreError> {
    let row: Option<Timeline> = db.row(stmt!("timeline"), &[]).await?;
    row.ok_or(StoreError::Decode {
        op: "timeline",
        message: "no row".to_owned(),
    })
}

/// Opens the timeline `tli`, after it was watched for a whole stopwatch, if the server is still on it.
/// True also when another agent opened it.
pub async fn open_timeline(db: &Db, tli: i64, address: &str) -> Result<bool, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        open: bool,
    }
    let row: Option<Row> = db
        .row(
            stmt!("open_timeline"),
            &[(&tli, Type::INT8), (&address, Type::TEXT)],
        )
        .await?;
    Ok(row.is_some_and(|r| r.open))
}

/// Says that the timeline `tli` was watched for W and `held`: runs with such a hold may be claimed on it.
pub async fn raise_held(db: &Db, tli: i64, held: Duration) -> Result<(), StoreError> {
    let _: Option<Value> = db
        .row(
            stmt!("raise_held"),
            &[(&tli, Type::INT8), (&millis(held), Type::INT8)],
        )
        .await?;
    Ok(())
}

pub(super) fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

/// A set of records as one parameter.
pub(crate) fn set<T: Serialize + std::fmt::Debug>(records: &[T]) -> Json<&[T]> {
    Json(records)
}
