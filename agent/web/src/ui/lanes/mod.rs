//! The signature picture: a lane per node, a bar per attempt, an arrow per takeover.
//!
//! [`arrange`] decides what is shown where, and reads no clock; [`draw`] makes markup of it.

mod arrange;
mod bands;
mod draw;
mod facts;
mod scale;
mod table;
#[cfg(test)]
mod tests;

use farmhand_store::reading::BarEnd;
use jiff::Timestamp;

pub use arrange::arrange;
pub use draw::draw;
pub use facts::{facts, silences};
pub use table::table;

/// More nodes than this are folded into one lane, but for those that have something to say.
pub const MANY: usize = 50;

/// What happened in a stretch of time, from the database.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub nodes: Vec<NodeFact>,
    pub attempts: Vec<AttemptFact>,
    /// Nodes that are not in `nodes`, because nothing is the matter with them.
    pub folded: usize,
    /// How many attempts ended when, where they are too many to be listed.
    pub counts: Vec<Count>,
    pub silences: Vec<Silence>,
    pub outages: Vec<Outage>,
    pub zombies: Vec<Zombie>,
}

/// Attempts that ended on a node, or on all that are folded, in a piece of the time.
#[derive(Clone, Debug)]
pub struct Count {
    pub address: Option<String>,
    pub from: Timestamp,
    pub to: Timestamp,
    pub total: usize,
    pub bad: usize,
}

#[derive(Clone, Debug)]
pub struct NodeFact {
    pub address: String,
    /// closed, draining, cordoned or ready.
    pub state: String,
    pub session: i64,
    pub slots: i64,
    pub running: i64,
}

/// One try of a run on a node.
#[derive(Clone, Debug)]
pub struct AttemptFact {
    pub run_id: i64,
    pub job_id: String,
    pub attempt: i32,
    pub address: String,
    pub session: i64,
    pub fence: i64,
    pub from: Timestamp,
    /// None while it lives.
    pub to: Option<Timestamp>,
    pub end: BarEnd,
    pub reason: Option<String>,
    pub ran_ms: Option<i64>,
}

/// Its node's session ended under it.
fn is_lost(end: BarEnd) -> bool {
    end == BarEnd::Lost
}

/// Nobody need look at it.
fn is_good(end: BarEnd) -> bool {
    matches!(
        end,
        BarEnd::Running | BarEnd::Succeeded | BarEnd::Released | BarEnd::NeverStarted
    )
}

/// A node was not heard of: its lease ran out, and then it was expired; or that is still to come.
#[derive(Clone, Debug)]
pub struct Silence {
    pub address: String,
    pub session: i64,
    /// The last sign of life.
    pub from: Timestamp,
    /// The expiry; None while it goes on.
    pub to: Option<Timestamp>,
}

/// A node did not reach the database. Its lease may have outlasted that.
#[derive(Clone, Debug)]
pub struct Outage {
    pub address: String,
    pub from: Timestamp,
    pub to: Timestamp,
}

/// A stale holder wanted to write, or lived, and was refused or killed.
#[derive(Clone, Debug)]
pub struct Zombie {
    pub address: String,
    pub run_id: i64,
    pub attempt: i32,
    pub at: Timestamp,
    /// What was done about it: "fenced", "killed".
    pub word: &'static str,
}

/// What is shown where. Horizontal places are percent of the width, vertical ones pixels.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub lanes: Vec<Lane>,
    pub arrows: Vec<Arrow>,
    pub ticks: Vec<Tick>,
    pub now: f64,
    pub height: f64,
}

#[derive(Clone, Debug)]
pub struct Lane {
    pub title: String,
    /// None: nodes folded into one.
    pub node: Option<NodeFact>,
    /// As the node's lists have it; in the picture of one run, as its attempt stands.
    pub state: String,
    pub top: f64,
    pub height: f64,
    pub bars: Vec<Bar>,
    pub bands: Vec<Band>,
    pub gaps: Vec<Gap>,
    pub marks: Vec<Mark>,
}

/// An attempt.
#[derive(Clone, Debug)]
pub struct Bar {
    pub fact: AttemptFact,
    pub x: f64,
    pub width: f64,
    pub y: f64,
    /// Its node died under it.
    pub hatched: bool,
    /// It took over from a lost one.
    pub heir: bool,
}

/// The attempts of a job that are too short to be bars: how many ended in each piece of the time.
#[derive(Clone, Debug)]
pub struct Band {
    pub job_id: Option<String>,
    pub y: f64,
    pub total: usize,
    pub bad: usize,
    pub cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub x: f64,
    pub width: f64,
    pub good: usize,
    pub bad: usize,
    /// Of the fullest cell of its band, in (0, 1].
    pub level: f64,
}

/// What a shaded stretch of a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shade {
    /// Not heard of, and not expired yet.
    Silent,
    /// Not heard of until it was expired.
    Expired,
    /// Without the database.
    Away,
}

/// A shaded stretch of a lane.
#[derive(Clone, Debug)]
pub struct Gap {
    pub x: f64,
    pub width: f64,
    pub lasted: std::time::Duration,
    pub shade: Shade,
}

/// A zombie.
#[derive(Clone, Debug)]
pub struct Mark {
    pub x: f64,
    pub run_id: i64,
    pub attempt: i32,
    pub word: &'static str,
}

/// From an attempt that was lost to the one that took over.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrow {
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
    pub from: (f64, f64),
    pub to: (f64, f64),
    pub from_node: String,
    pub to_node: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub x: f64,
    pub text: String,
    /// Left out where there is little room.
    pub minor: bool,
}
