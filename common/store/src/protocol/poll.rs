//! One poll of the farm: what a challenger, a claimer and a scheduler need to know, in one round trip.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::LeaseIdentity;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use farmhand_core::lease::{Database, MarksBelow};

/// What one poll shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Poll {
    /// The database's clock.
    pub db_now: Timestamp,
    pub database: Box<Database>,
    /// Above the mark of every renewal that this snapshot shows; None without an open node.
    pub above: Option<i64>,
    /// Of the open nodes, the caller included.
    pub shortest_ttl_ms: Option<i64>,
    /// The open nodes whose mark is below what was asked for; never the caller.
    pub silent: Vec<SilentLease>,
    /// Open nodes that take work, in address order, 512 at most.
    pub live_addresses: Vec<String>,
    /// The newest change of a definition; see `jobs_since`.
    pub job_seq: i64,
    /// When the first due run is ready that the caller may claim; in the past when there is one now.
    pub earliest_ready: Option<Timestamp>,
    /// When the first job fires; in the past when one is overdue.
    pub earliest_next_run: Option<Timestamp>,
    /// The caller's runs that somebody wants cancelled.
    pub cancels: Vec<CancelWanted>,
    /// Whether ends of jobs that trigger others are to be looked at: then settle.
    pub unsettled: bool,
    /// Whether the caller is to claim nothing more.
    pub cordoned: bool,
    /// Whether what runs there is to come to its end, too.
    pub draining: bool,
    /// When what still runs on the draining caller is to be ended.
    pub drain_until: Option<Timestamp>,
    /// Whether the caller's row says that its agent ends.
    pub leaving: bool,
    /// Whether any job needs pools, locks or rates: then claims ask for such runs too.
    pub gates: bool,
    /// When somebody last looked for missed deadlines; None where no job tells anybody how it does.
    pub watched_at: Option<Timestamp>,
    /// Whether notes or messages of that are to be looked at now.
    pub to_tell: bool,
    /// When the caller might claim one that waits at such a gate.
    pub gated_at: Option<Timestamp>,
    /// Named leases that hold what runs wait for.
    pub awaited_leases: Option<Vec<AwaitedLease>>,
}

/// It is left behind when it shows the same for longer than its TTL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedLease {
    /// The lease, and the lock.
    pub name: String,
    /// Changes with each renewal.
    pub shown: String,
    /// How long it lasts from a renewal, in milliseconds.
    pub ttl_ms: i64,
}

/// What a stopwatch watches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SilentLease {
    pub address: String,
    /// Its open session.
    pub session: i64,
    /// The agent start that opened that session.
    pub incarnation: Uuid,
    /// Its heartbeat, when the snapshot was taken.
    pub renewals: i64,
    /// Of its latest renewal.
    pub mark: i64,
    /// How long its lease lasts from a renewal, in milliseconds.
    pub ttl_ms: i64,
}

/// A running attempt that somebody wants cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelWanted {
    pub run_id: i64,
    pub attempt: i32,
    pub by: Option<String>,
}

/// Looks at the farm, at the nodes with a mark below these among it.
pub async fn poll(db: &Db, me: &LeaseIdentity, below: &MarksBelow) -> Result<Poll, StoreError> {
    db.one(
        stmt!("poll", often),
        &[
            (&me.address, Type::TEXT),
            (&me.session, Type::INT8),
            (&below.ttls, Type::INT8_ARRAY),
            (&below.marks, Type::INT8_ARRAY),
        ],
    )
    .await
}

/// A definition, as agents follow it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    pub job_id: String,
    /// The revision of the job's definition.
    pub rev: i64,
    /// The number of the change that made it so.
    pub seq: i64,
    /// The definition, as it is stored.
    pub spec: Value,
    /// Whether it may run at all.
    pub enabled: bool,
    pub paused: bool,
    /// Whether it was deleted: agents forget it.
    pub deleted: bool,
    pub scheduled: bool,
    /// The next due instant; none without a schedule.
    pub next_run: Option<Timestamp>,
    /// Every due instant up to this one has its outcome.
    pub decided_until: Option<Timestamp>,
}

/// Definitions that changed after `seq`, in order of their change; all of them with `seq` 0. Deleted
/// ones come as such.
pub async fn jobs_since(db: &Db, seq: i64) -> Result<Vec<JobRow>, StoreError> {
    db.rows(stmt!("jobs_since"), &[(&seq, Type::INT8)]).await
}

/// A job to fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overdue {
    pub job_id: String,
    /// The revision whose schedule it is.
    pub rev: i64,
    pub next_run: Timestamp,
}

/// Jobs that are due by the database's clock, longest first.
pub async fn overdue(db: &Db, limit: i64) -> Result<Vec<Overdue>, StoreError> {
    db.rows(stmt!("overdue"), &[(&limit, Type::INT8)]).await
}
