//! The signature picture: a lane per node, a bar per attempt, and who took over from whom.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::bars::{Bar, BarEnd, FenceMark, Successor, was_expired};
use super::nodes::NodeState;
use super::outages::{Outage, outages};
use crate::db::{Db, stmt};
use crate::error::StoreError;

/// Bars of a picture; beyond them it is drawn as bands.
const BARS: i64 = 2_000;
/// Lost attempts of which is read what became of them.
const LOST: usize = 500;
/// Lanes of a picture; of a larger farm healthy nodes are folded into one.
const LANES: usize = 50;
/// Bands along a picture, and attempts that one looks at.
const BUCKETS: i64 = 60;
const IN_BUCKET: i64 = 250;
/// The longest picture.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 7);

/// What a picture shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// From this instant until before the other; at most seven days.
    pub from: Timestamp,
    /// The end; not included.
    pub to: Timestamp,
    /// These addresses only; empty for all.
    pub nodes: Vec<String>,
    /// Attempts of this job only.
    pub job: Option<String>,
}

/// Lanes of nodes over a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Lanes {
    /// The beginning.
    pub from: Timestamp,
    /// The end; not included.
    pub to: Timestamp,
    /// The database's clock.
    pub db_now: Timestamp,
    /// In the order of addresses; at most 50.
    pub lanes: Vec<Lane>,
    /// Nodes without a lane of their own, because nothing is the matter with them.
    pub folded: i64,
    /// In the order of their beginning. Of more than 2,000 only the last lost ones and those that took over from them; the
    /// others are in `bands`.
    pub bars: Vec<Bar>,
    /// How many attempts ended in each stretch of time; given when there are too many for bars.
    pub bands: Vec<Band>,
    /// When nodes did not reach the database, as far as that ended in this time; the last 500.
    pub outages: Vec<Outage>,
}

/// A node's lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lane {
    /// The node's address.
    pub address: String,
    /// The node's state now.
    pub state: NodeState,
    /// How many attempts may run on it at once.
    pub slots: i32,
    /// When its last session was ended by another node.
    pub lost_at: Option<Timestamp>,
    #[serde(skip)]
    #[schema(ignore)]
    ttl_ms: i64,
}

/// Attempts that ended on a node within one part of the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Band {
    /// None: of all nodes that have no lane.
    pub node: Option<String>,
    /// Where that part begins.
    pub from: Timestamp,
    /// Where it ends.
    pub to: Timestamp,
    /// How many ended.
    pub ended: i64,
    /// Of them those that did not succeed.
    pub bad: i64,
    /// More ended in this part of the time than were looked at: the numbers are of the first 250.
    pub(crate) sampled: bool,
}

#[derive(Deserialize)]
struct NodeRow {
    db_now: Timestamp,
    address: Option<String>,
    state: Option<NodeState>,
    slots: Option<i32>,
    lost_at: Option<Timestamp>,
    ttl_ms: Option<i64>,
}

#[derive(Deserialize)]
struct Mark {
    run_id: i64,
    attempt: Option<i32>,
    #[serde(flatten)]
    mark: FenceMark,
}

/// Reads a picture.
/// Errors: The database's; `Refused` for a stretch of time that ends before it begins, or lasts longer than seven days.
pub async fn lanes(db: &Db, window: &Window) -> Result<Lanes, StoreError> {
    if window.to <= window.from || window.to.duration_since(window.from) > LONGEST {
        return Err(StoreError::Refused(
            "the time shown must end after it begins, and last seven days at most".to_owned(),
        ));
    }
    let nodes: Vec<NodeRow> = db
        .rows(stmt!("reading_lane_nodes"), &[(&window.nodes, Type::TEXT_ARRAY)])
        .await?;
    let db_now = nodes.first().map_or(window.to, |n| n.db_now);
    let all: Vec<Lane> = nodes.into_iter().filter_map(lane).collect();
    let rows: Vec<Bar> = db
        .rows(
            stmt!("reading_bars"),
            &[
                (&window.from, Type::TIMESTAMPTZ),
                (&window.to, Type::TIMESTAMPTZ),
                (&window.nodes, Type::TEXT_ARRAY),
                (&window.job, Type::TEXT),
                (&(BARS + 1), Type::INT8),
            ],
        )
        .await?;
    let crowded = i64::try_from(rows.len()).unwrap_or(i64::MAX) > BARS;
    let rows = if crowded {
        lost_and_heirs(db, window, rows).await?
    } else {
        rows
    };
    let (lanes, folded) = fold(all.clone(), &rows);
    let own: BTreeSet<&str> = lanes.iter().map(|l| l.address.as_str()).collect();
    let marks = marks(db, &rows).await?;
    let mut bars = bars(rows, &all, marks);
    bars.retain(|bar| own.contains(bar.node.as_str()));
    let bands = if crowded {
        let own: Vec<&str> = own.iter().copied().collect();
        bands(db, window, &own).await?
    } else {
        Vec::new()
    };
    Ok(Lanes {
        from: window.from,
        to: window.to,
        db_now,
        lanes,
        folded,
        bars,
        bands,
        outages: outages(db, window).await?,
    })
}

fn lane(row: NodeRow) -> Option<Lane> {
    Some(Lane {
        address: row.address?,
        state: row.state?,
        slots: row.slots?,
        lost_at: row.lost_at,
        ttl_ms: row.ttl_ms?,
    })
}

/// Which nodes get a lane. Of more than fifty those that something is the matter with, and those that took over from
/// them; the others are folded into one.
fn fold(all: Vec<Lane>, rows: &[Bar]) -> (Vec<Lane>, i64) {
    if all.len() <= LANES {
        return (all, 0);
    }
    let lost: BTreeSet<(i64, i32)> = (rows.iter().filter(|r| r.end == BarEnd::Lost))
        .map(|r| (r.run_id, r.attempt))
        .collect();
    let told: BTreeSet<&str> = (rows.iter())
        .filter(|r| r.end == BarEnd::Lost || lost.contains(&(r.run_id, r.attempt - 1)))
        .map(|r| r.node.as_str())
        .collect();
    let total = all.len();
    let odd = |lane: &Lane| {
        !matches!(lane.state, NodeState::Ready | NodeState::Closed) || told.contains(lane.address.as_str())
    };
    let mut shown: Vec<Lane> = all.into_iter().filter(odd).collect();
    shown.truncate(LANES);
    let folded = i64::try_from(total - shown.len()).unwrap_or(0);
    (shown, folded)
}

/// The same, in order, with who took over from whom.
fn bars(mut bars: Vec<Bar>, nodes: &[Lane], marks: Vec<Mark>) -> Vec<Bar> {
    let ttl: BTreeMap<&str, i64> = nodes.iter().map(|n| (n.address.as_str(), n.ttl_ms)).collect();
    let by_attempt: BTreeMap<(i64, i32), Bar> = (bars.iter())
        .map(|bar| ((bar.run_id, bar.attempt), bar.clone()))
        .collect();
    let mut fenced: BTreeMap<(i64, i32), Vec<FenceMark>> = BTreeMap::new();
    for mark in marks {
        fenced
            .entry((mark.run_id, mark.attempt.unwrap_or(0)))
            .or_default()
            .push(mark.mark);
    }
    for bar in &mut bars {
        let is_lost = bar.end == BarEnd::Lost;
        let next = by_attempt.get(&(bar.run_id, bar.attempt + 1)).filter(|_| is_lost);
        let before = by_attempt.get(&(bar.run_id, bar.attempt - 1));
        // Expiry comes no sooner than a whole lease after the last renewal, which was then or earlier.
        let expired = bar.to.filter(|_| is_lost && was_expired(bar.reason.as_deref()));
        bar.gap_from = expired.map(|ended| {
            let ttl = SignedDuration::from_millis(ttl.get(bar.node.as_str()).copied().unwrap_or(0));
            ended.saturating_sub(ttl).unwrap_or(ended).max(bar.from)
        });
        bar.successor = next.map(|next| Successor {
            attempt: next.attempt,
            node: next.node.clone(),
            fence: next.fence,
            from: next.from,
        });
        bar.took_over_from = before.filter(|b| b.end == BarEnd::Lost).map(|b| b.attempt);
        bar.fenced = fenced.remove(&(bar.run_id, bar.attempt)).unwrap_or_default();
    }
    bars.sort_by_key(|bar| (bar.from, bar.run_id, bar.attempt));
    bars
}

/// What is drawn of too many attempts, because people look for it: those that were lost last, and those that took over.
async fn lost_and_heirs(db: &Db, window: &Window, rows: Vec<Bar>) -> Result<Vec<Bar>, StoreError> {
    let mut kept: Vec<Bar> = rows.into_iter().filter(|r| r.end == BarEnd::Lost).collect();
    kept.sort_by_key(|r| Reverse(r.to));
    kept.truncate(LOST);
    if kept.is_empty() {
        return Ok(kept);
    }
    let (runs, attempts): (Vec<i64>, Vec<i32>) = kept.iter().map(|r| (r.run_id, r.attempt + 1)).unzip();
    let heirs: Vec<Bar> = db
        .rows(
            stmt!("reading_heirs"),
            &[
                (&runs, Type::INT8_ARRAY),
                (&attempts, Type::INT4_ARRAY),
                (&window.from, Type::TIMESTAMPTZ),
                (&window.to, Type::TIMESTAMPTZ),
                (&window.nodes, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    let known: BTreeSet<(i64, i32)> = kept.iter().map(|r| (r.run_id, r.attempt)).collect();
    // One that was lost in its turn is among them already.
    kept.extend((heirs.into_iter()).filter(|heir| !known.contains(&(heir.run_id, heir.attempt))));
    Ok(kept)
}

async fn marks(db: &Db, rows: &[Bar]) -> Result<Vec<Mark>, StoreError> {
    let lost: BTreeSet<i64> = (rows.iter())
        .filter(|r| r.end == BarEnd::Lost)
        .map(|r| r.run_id)
        .collect();
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let lost: Vec<i64> = lost.into_iter().take(LOST).collect();
    db.rows(stmt!("reading_fences"), &[(&lost, Type::INT8_ARRAY)])
        .await
}

async fn bands(db: &Db, window: &Window, own: &[&str]) -> Result<Vec<Band>, StoreError> {
    db.rows(
        stmt!("reading_bands"),
        &[
            (&window.from, Type::TIMESTAMPTZ),
            (&window.to, Type::TIMESTAMPTZ),
            (&window.nodes, Type::TEXT_ARRAY),
            (&window.job, Type::TEXT),
            (&own, Type::TEXT_ARRAY),
            (&BUCKETS, Type::INT8),
            (&IN_BUCKET, Type::INT8),
        ],
    )
    .await
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
