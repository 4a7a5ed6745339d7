//! The judge: what the jobs themselves wrote down, and what the database says became of them, held against the promises.
//!
//! It knows nothing of agents, leases or sessions but their windows: an attempt lives from its first line to its last, and
//! the order of the lines of one file is the order in which they were written, whatever any clock says.

mod judge;
mod records;
mod windows;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

pub use judge::check;
pub use records::{RELABELLED, REMOVED};

use super::lateness::{Timed, Timeline, is_held_up};
use crate::farm::takeover;
use crate::witness::{Seen, What};

/// What a job's name stands for.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    pub job: String,
    /// Its attempts have a PID namespace: no declared window excuses two lives.
    pub isolated: bool,
    /// At no time two attempts of any of its runs: `overlap`, a lock.
    pub alone: bool,
    /// Never a second attempt: `on_lost = "fail"` without retries.
    pub at_most_once: bool,
    /// A lost attempt is followed by the next one as promise 4 says: nothing else makes it wait.
    pub prompt: bool,
    /// A run of it belongs to one node.
    pub each_node: bool,
    /// What its command exits with when nobody ends it.
    pub exit_code: i32,
    /// How often it is tried again after an end of its own that is none of success.
    pub retries: usize,
    /// Its witness is only a part of what runs: an attempt may end by itself without a line.
    pub in_part: bool,
}

/// A run as recorded at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub run: i64,
    pub job: String,
    pub state: String,
    pub attempt: i32,
    pub fence: Option<i64>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub reason: Option<String>,
    pub takeovers: i32,
    /// The node that held it when it ended.
    pub running_at: Option<String>,
    /// When the end was recorded, in nanoseconds of CLOCK_BOOTTIME.
    pub finished_at: Option<u64>,
    /// Under which it was submitted.
    pub idempotency_key: Option<String>,
}

impl Row {
    pub fn is_over(&self) -> bool {
        !matches!(self.state.as_str(), "due" | "running")
    }
}

/// After its keepers are back, whatever they had left behind is gone within this.
pub const SWEPT: Duration = Duration::from_secs(4);

/// A time in nanoseconds of CLOCK_BOOTTIME in which two attempts of a run may live, one of them on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    pub node: String,
    pub from: u64,
    pub to: u64,
    pub why: String,
}

/// What was done to the farm, as it was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    pub from: u64,
    /// When it was over, the agent started again included.
    pub to: u64,
    pub node: Option<String>,
    /// The longest that the node's session may have had when this began. Of the database: the longest of the farm, where claims
    /// may have to wait for it.
    pub lease: Duration,
    pub database: bool,
    /// From when to when its node was there under its other address.
    pub other_address: Option<[u64; 2]>,
    pub what: String,
}

impl Done {
    /// Promise 4, of what this ends.
    pub fn takeover(&self) -> Duration {
        takeover(self.lease)
    }
}

/// An agent that ended without having been told to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Surprise {
    pub node: String,
    /// When that was noticed, by CLOCK_BOOTTIME.
    pub at: u64,
    pub status: String,
    /// Its last words.
    pub said: String,
}

/// All that the oracle judges.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub kinds: Vec<Kind>,
    pub nodes: Vec<String>,
    pub lines: Vec<Seen>,
    /// By run, when the farm had come to rest.
    pub rows: Vec<Row>,
    pub windows: Vec<Window>,
    pub done: Vec<Done>,
    /// Runs whose submission was acknowledged.
    pub submitted: Vec<i64>,
    /// Rows that should have gone, processes, descriptors: each with a sentence.
    pub left: Vec<String>,
    pub surprises: Vec<Surprise>,
    /// Lines in which an agent or a warden says that it panicked.
    pub panics: Vec<String>,
    /// The promise, and what the machine's own delays add to it.
    pub takeover: Option<Takeover>,
    /// The run is still going on: what has no end yet may still get one.
    pub unfinished: bool,
}

impl History {
    /// What was done to the farm, beside what the lives say of open claims.
    pub fn timeline(&self, takeover: Takeover, lives: &Lives) -> Timeline {
        let all = lives.values().flat_map(BTreeMap::values);
        let at_once = all.filter(|life| !is_held_up(&self.done, &life.node, life.first));
        let mut begun: Vec<u64> = at_once.map(|life| life.first).collect();
        begun.sort_unstable();
        Timeline {
            nodes: self.nodes.clone(),
            done: self.done.clone(),
            shortest: takeover.shortest,
            begun,
            settled: takeover.settled,
            tolerance: takeover.tolerance,
        }
    }
}

/// How promise 4 is judged.
#[derive(Clone, Copy, Debug)]
pub struct Takeover {
    pub tolerance: Duration,
    /// The shortest lease of the farm.
    pub shortest: Duration,
    /// For so long another node must have been left alone to count as healthy; for the time of its own takeover, when that is
    /// longer.
    pub settled: Duration,
}

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Broken {
    /// A line of an older attempt after the first of a newer one.
    TwoLives,
    /// The lock of the run's own file was taken: somebody else was alive.
    Clash,
    StartedTwice,
    FenceNotGrowing,
    /// Two attempts, of one run or of two, were given the same fence.
    FenceRepeated,
    /// The recorded end is not that of the last attempt, or not of the node on which it lived.
    StaleFinish,
    /// A line of the run after its recorded end.
    LifeAfterEnd,
    /// Recorded as succeeded, and no attempt had come to its end by then.
    FalseSuccess,
    /// Recorded as something else than how the attempt ended.
    WrongEnd,
    NotAlone,
    MoreThanOnce,
    LateTakeover,
    /// An acknowledged submission without an outcome.
    Forgotten,
    /// One submission made two runs.
    SubmittedTwice,
    /// An attempt of a run of which there is no record.
    Unknown,
    /// An agent ended by itself, and not because what was done to its node kept its new warden from coming up.
    EndedByItself,
    Panicked,
    Left,
}

/// One violation with its story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub broken: Broken,
    pub run: Option<i64>,
    pub what: String,
    /// Inside a declared window: it shows that the oracle sees.
    pub declared: Option<String>,
    pub history: Vec<String>,
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    pub runs: usize,
    pub attempts: usize,
    /// From what hit an attempt's node to the first line of the next attempt.
    pub takeovers: Vec<Timed>,
    /// How many runs were recorded in each state, and why.
    pub ends: BTreeMap<String, usize>,
}

impl Verdict {
    pub fn undeclared(&self) -> impl Iterator<Item = &Violation> {
        self.violations.iter().filter(|v| v.declared.is_none())
    }
}

/// One attempt as its own processes saw it.
#[derive(Clone, Debug)]
pub struct Life {
    pub job: String,
    pub node: String,
    pub fence: i64,
    pub first: u64,
    pub last: u64,
    pub starts: usize,
    /// When it said that it had come to its end.
    pub ended: Option<u64>,
}

/// The name of the site whose agent has this address.
pub fn site_of(address: &str) -> &str {
    address.strip_suffix(OTHER).unwrap_or(address)
}

/// At the end of the address that a site has for a while.
pub const OTHER: &str = "-b";

pub type Lives = BTreeMap<i64, BTreeMap<i32, Life>>;

/// The lives of all attempts, by run and attempt.
pub fn lives(lines: &[Seen]) -> Lives {
    let mut lives = Lives::new();
    for line in lines {
        let life = lives
            .entry(line.run)
            .or_default()
            .entry(line.attempt)
            .or_insert_with(|| Life {
                job: line.job.clone(),
                node: line.node.clone(),
                fence: line.fence,
                first: line.at,
                last: line.at,
                starts: 0,
                ended: None,
            });
        (life.first, life.last) = (life.first.min(line.at), life.last.max(line.at));
        life.starts += usize::from(line.what == What::Start);
        if line.what == What::End {
            life.ended = life.ended.or(Some(line.at));
        }
    }
    lives
}
