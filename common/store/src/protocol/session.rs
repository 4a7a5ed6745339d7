//! A node's lease: opened, renewed, ended.

use std::time::Duration;

use farmhand_core::lease::{Closed, Database, EpochKey, Remembered};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;

use super::fire::{make_missing_rounds, settle_pending};
use crate::LeaseIdentity;
use crate::db::{Db, stmt};
use crate::error::StoreError;

/// What a node says about itself when it opens a session.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// The name of its lease, unique in the farm.
    pub address: String,
    /// The machine's name, for people.
    pub name: String,
    /// Random for each opened session; kept across retries of one open.
    pub incarnation: Uuid,
    /// How long its lease lasts from a renewal.
    pub ttl: Duration,
    /// How many attempts may run on it at once.
    pub slots: i32,
    /// A JSON object of strings.
    pub labels: Value,
    pub version: String,
    /// The highest session of this address that the agent remembers; 0 for none.
    pub last_session: i64,
    /// The machine and its boot, as [`farmhand_core::lease::Relation`] compares them.
    pub machine: Option<String>,
}

/// The answer to `open`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The session is ours, also when an earlier reply was lost.
    Session(i64),
    /// Another incarnation holds the address: watch its renewals like any challenger.
    Taken(Holder),
    /// Claims are not open: the database was restarted or replaced. Nobody ends the session of the holder, if there is one, before
    /// they are.
    Closed(Option<Holder>),
}

/// The open session of an address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Holder {
    pub session: i64,
    /// The agent start that opened it.
    pub incarnation: Uuid,
    pub renewals: i64,
    /// How long its lease lasts from a renewal, in milliseconds.
    pub ttl_ms: i64,
    /// Of the agent that opened it.
    pub machine: Option<String>,
    /// Where it is shown: another server may be an older copy.
    pub server: String,
}

/// Opens a session, or finds the one that this very `incarnation` opened.
pub async fn open(db: &Db, node: &NodeInfo) -> Result<Opened, StoreError> {
    let row: Option<(i64,)> = db
        .row(
            stmt!("open"),
            &[
                (&node.address, Type::TEXT),
                (&node.name, Type::TEXT),
                (&node.incarnation, Type::UUID),
                (&millis(node.ttl), Type::INT8),
                (&node.slots, Type::INT4),
                (&node.labels, Type::JSONB),
                (&node.version, Type::TEXT),
                (&node.last_session, Type::INT8),
                (&node.machine, Type::TEXT),
            ],
        )
        .await?;
    if let Some((session,)) = row {
        return Ok(Opened::Session(session));
    }
    let row: Option<(Holder, bool)> = db
        .row(stmt!("open_taken"), &[(&node.address, Type::TEXT)])
        .await?;
    Ok(match row {
        Some((holder, true)) => Opened::Taken(holder),
        row => Opened::Closed(row.map(|(holder, _)| holder)),
    })
}

/// Goes on with a session whose wardens live, as `node` says of itself now; `leaving`: it ends when what runs has ended.
/// False when the session is over: nothing is opened.
pub async fn readopt(db: &Db, session: i64, node: &NodeInfo, leaving: bool) -> Result<bool, StoreError> {
    let row: Option<Value> = db
        .row(
            stmt!("readopt"),
            &[
                (&node.address, Type::TEXT),
                (&session, Type::INT8),
                (&node.incarnation, Type::UUID),
                (&node.name, Type::TEXT),
                (&millis(node.ttl), Type::INT8),
                (&node.slots, Type::INT4),
                (&node.labels, Type::JSONB),
                (&node.version, Type::TEXT),
                (&leaving, Type::BOOL),
            ],
        )
        .await?;
    Ok(row.is_some())
}

/// A run held by a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub run_id: i64,
    pub attempt: i32,
    /// Tells a claim that a failover lost from the one that was given its number again.
    pub fence: i64,
    pub cancel: bool,
}

/// The answer to `renew`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease is extended; `held` is what the session held in the same snapshot.
    Alive {
        /// Each run with its attempt.
        held: Vec<Held>,
        /// Whether the node is to claim nothing more.
        cordoned: bool,
        /// Whether what runs there is to come to its end, too.
        draining: bool,
        /// When what still runs here is to be ended, while draining.
        drain_until: Option<Timestamp>,
        /// The database's clock.
        db_now: Timestamp,
        renewals: i64,
        database: Box<Database>,
    },
    /// The session ended: kill now.
    Lost,
}

/// What a renewal tells besides.
#[derive(Clone, Debug, Default)]
pub struct NodeReport {
    /// The database's clock minus the caller's, None while it is not known; kept for people to read.
    pub clock_offset_ms: Option<i64>,
    /// The latest that the caller knows.
    pub pulse: i64,
    /// Why the node claims nothing, if so: nothing is kept for it then.
    pub cannot_start: Option<String>,
}

/// One renewal, however many runs are held.
pub async fn renew(
    db: &Db,
    me: &LeaseIdentity,
    ttl: Duration,
    report: &NodeReport,
) -> Result<Renewed, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        held: Vec<Held>,
        cordoned: bool,
        draining: bool,
        drain_until: Option<Timestamp>,
        db_now: Timestamp,
        renewals: i64,
        database: Box<Database>,
    }
    let row: Option<Row> = db
        .row(
            stmt!("renew", often),
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.incarnation, Type::UUID),
                (&millis(ttl), Type::INT8),
                (&report.clock_offset_ms, Type::INT8),
                (&report.pulse, Type::INT8),
                (&report.cannot_start, Type::TEXT),
            ],
        )
        .await?;
    Ok(row.map_or(Renewed::Lost, |row| Renewed::Alive {
        held: row.held,
        cordoned: row.cordoned,
        draining: row.draining,
        drain_until: row.drain_until,
        db_now: row.db_now,
        renewals: row.renewals,
        database: row.database,
    }))
}

/// Which database answers, and whether claims are open on it.
pub async fn database(db: &Db) -> Result<Database, StoreError> {
    let (database,): (Database,) = db.one(stmt!("database"), &[]).await?;
    Ok(database)
}

/// An epoch that an agent opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    pub epoch: i64,
    /// The newest one of before.
    pub follows: i64,
    pub why: Option<Closed>,
    /// At most so many runs that agents had seen are not in this database; None when no agent that told it remembers any.
    pub runs_forgotten: Option<i64>,
}

/// Opens an epoch on what was watched for a whole stopwatch. No number that `memory` knows of is given again. None when
/// another agent was first, or another server answers.
pub async fn open_epoch(
    db: &Db,
    watched: &EpochKey,
    address: &str,
    memory: Option<&Remembered>,
) -> Result<Option<NewEpoch>, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        epoch: i64,
        follows: i64,
        opened_on: String,
        cluster: Option<String>,
        server_now: String,
        cluster_now: Option<String>,
        runs_forgotten: Option<i64>,
    }
    let shown = database(db).await?;
    let (epoch, run, step) = Remembered::floor(memory, &shown);
    // Before claims are open.
    raise_sequences(db, run).await?;
    let row: Option<Row> = db
        .row(
            stmt!("open_epoch"),
            &[
                (&watched.id, Type::UUID),
                (&watched.server, Type::TEXT),
                (&address, Type::TEXT),
                (&epoch, Type::INT8),
                (&run, Type::INT8),
                (&step, Type::INT8),
            ],
        )
        .await?;
    if row.is_some() {
        opened(db).await;
    }
    Ok(row.map(|row| NewEpoch {
        epoch: row.epoch,
        follows: row.follows,
        why: Closed::of(
            (&row.opened_on, row.cluster.as_deref()),
            (&row.server_now, row.cluster_now.as_deref()),
        ),
        runs_forgotten: row.runs_forgotten,
    }))
}

/// Says that the database is the one that `memory` is of, and was only started again. False when it has not got all of it, and
/// for a memory of another boot: machine and database may have been restored from one and the same day.
pub async fn vouch(db: &Db, memory: &Remembered) -> Result<bool, StoreError> {
    if memory.boot.is_none() {
        return Ok(false);
    }
    let row: Option<Value> = db
        .row(
            stmt!("vouch"),
            &[
                (&memory.id, Type::UUID),
                (&memory.pulse, Type::INT8),
                (&memory.address, Type::TEXT),
                (&memory.session, Type::INT8),
                (&memory.incarnation, Type::UUID),
                (&memory.renewals, Type::INT8),
                (&memory.fence, Type::INT8),
            ],
        )
        .await?;
    if row.is_some() {
        opened(db).await;
    }
    Ok(row.is_some())
}

/// Claims are open: what waited for an end that was recorded before may go, since nothing is promoted while they are closed.
async fn opened(db: &Db) {
    if let Err(error) = settle_pending(db).await {
        tracing::warn!(%error, "queued runs wait for the next poll");
    }
    if let Err(error) = make_missing_rounds(db).await {
        tracing::warn!(%error, "rounds wait for the next sweep");
    }
}

/// Tells a database whose claims are closed what it must not give again, if `memory` is of this farm.
pub async fn remind(db: &Db, memory: &Remembered) -> Result<(), StoreError> {
    let news: Option<Value> = db
        .row(
            stmt!("remind"),
            &[
                (&memory.farm_id, Type::UUID),
                (&memory.epoch, Type::INT8),
                (&memory.run, Type::INT8),
            ],
        )
        .await?;
    if news.is_some() {
        // What people submit before claims are open gets a number, too.
        raise_sequences(db, memory.run).await?;
    }
    Ok(())
}

/// Raises the sequences above their rows, and that of runs above `run`, which an agent has seen; 0 for none.
pub async fn raise_sequences(db: &Db, run: i64) -> Result<(), StoreError> {
    let _: Option<Value> = db.row(stmt!("raise_sequences"), &[(&run, Type::INT8)]).await?;
    Ok(())
}

/// Closes claims on a database that has less than `memory`, and reminds it: whoever opens the next epoch may know less.
/// False when it has not.
pub async fn doubt(db: &Db, shown: &Database, memory: &Remembered) -> Result<bool, StoreError> {
    let row: Option<Value> = db
        .row(
            stmt!("doubt"),
            &[
                (&memory.farm_id, Type::UUID),
                (&shown.id, Type::UUID),
                (&memory.epoch, Type::INT8),
                (&memory.id, Type::UUID),
                (&memory.pulse, Type::INT8),
            ],
        )
        .await?;
    if row.is_some() {
        remind(db, memory).await?;
    }
    Ok(row.is_some())
}

pub(crate) fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

/// A set of records as one parameter.
pub(crate) fn set<T: Serialize + std::fmt::Debug>(records: &[T]) -> Json<&[T]> {
    Json(records)
}
