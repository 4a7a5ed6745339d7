//! By when something must have begun: computed from what was down at that time, with the lengths that the product promises.
//!
//! The farm does what is due within a takeover (promise 4) in which the database and one node that could act were left alone. A bound
//! is the end of the first such span. Whatever is hit before that moves its beginning, and excuses nothing else. What only one address
//! may run waits for spans in which its node has that address.

use std::time::Duration;

use serde::Serialize;

use super::oracle::{Done, SWEPT, site_of};
use crate::farm::takeover;

/// A session that falls silent within a transaction keeps its rows from all others until the server ends it
/// (`idle_in_transaction_session_timeout` in `common/store/src/conn.rs`).
const SILENT: Duration = Duration::from_secs(5);

/// An agent gives a statement up after this (`statement_timeout` in `common/store/src/config.rs`), and then its connection.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// What was claimed begins within this on a node that nothing is done to.
const STARTED: Duration = Duration::from_secs(2);

/// A farm, and what was done to it.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub nodes: Vec<String>,
    pub done: Vec<Done>,
    /// The shortest lease of the farm: what is due is fired and claimed within the time of its takeover.
    pub shortest: Duration,
    /// When attempts of any run began where nothing held them up, in order: claims were open then.
    pub begun: Vec<u64>,
    /// A node that nothing was done to for so long, and for the time of its own takeover, can act.
    pub settled: Duration,
    /// What the machine's own delays add to each span.
    pub tolerance: Duration,
}

/// A time that something took, and the time within which it had to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timed {
    /// When it began, on the machine's own clock.
    pub from: u64,
    pub took: Duration,
    pub within: Duration,
}

impl Timed {
    /// From `from` to `at`, where `by` is the bound.
    pub fn new(from: u64, at: u64, by: u64) -> Self {
        let since = |to: u64| Duration::from_nanos(to.saturating_sub(from));
        Self {
            from,
            took: since(at),
            within: since(by),
        }
    }

    pub fn is_late(&self) -> bool {
        self.took > self.within
    }

    /// The one that came closest to its bound, or went furthest beyond it.
    pub fn closest(times: impl IntoIterator<Item = Self>) -> Option<Self> {
        let part = |t: &Self| t.took.as_secs_f64() / t.within.as_secs_f64().max(1e-9);
        times.into_iter().max_by(|a, b| part(a).total_cmp(&part(b)))
    }
}

/// Median and 99th percentile of each quarter of the time; zero for one in which nothing began.
pub fn quarters(times: &[Timed]) -> [(Duration, Duration); 4] {
    let first = times.iter().map(|t| t.from).min().unwrap_or(0);
    let whole = times.iter().map(|t| t.from - first).max().unwrap_or(0) + 1;
    std::array::from_fn(|quarter| {
        let within = times
            .iter()
            .filter(|t| (t.from - first) / whole.div_ceil(4) == quarter as u64);
        let mut took: Vec<Duration> = within.map(|t| t.took).collect();
        took.sort_unstable();
        let at = |percent: usize| took.get(took.len().saturating_sub(1) * percent / 100).copied();
        (at(50).unwrap_or_default(), at(99).unwrap_or_default())
    })
}

/// The first attempt of a run that left a line.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    pub due: u64,
    /// Where it began.
    pub node: &'a str,
    /// No other node may run it.
    pub bound: bool,
    /// Attempts before it, which left none.
    pub lost: usize,
}

impl Timeline {
    /// By when the first attempt of a due run must have begun. It was fired and claimed within a takeover, and a silent transaction
    /// where a node was hit. Each attempt without a line was taken over from a node that was hit. What was claimed by a node that
    /// was hit begins when that is back.
    pub fn begins_by(&self, run: &Beginning) -> u64 {
        let own = [run.node.to_owned()];
        let may = if run.bound {
            own.as_slice()
        } else {
            self.nodes.as_slice()
        };
        let promise = takeover(self.shortest);
        let soon = run.due + nanos(promise);
        let silent = self.longest_hit(run.due, soon).map_or(Duration::ZERO, |_| SILENT);
        let mut by = self.clear(run.due, promise + silent, may);
        for _ in 0..run.lost {
            if let Some(lease) = self.longest_hit(run.due, by) {
                by = self.clear(by, takeover(lease), may);
            }
        }
        self.not_before_it_is_back(run.node, run.due, by)
    }

    /// By when the next attempt must have begun of one that ended on `node`, cut off by what began at or before `last`. The time
    /// counts anew from each hit that met a node which was not back for long. `None` where nothing was done to that node.
    pub fn taken_over_by(&self, node: &str, last: u64, next: &str, lost: usize) -> Option<(&Done, u64)> {
        let mut own: Vec<&Done> = self.of_node(node).collect();
        own.sort_unstable_by_key(|d| d.from);
        let may_have = |d: &&Done| d.from <= last && last <= d.to.max(d.from + nanos(d.takeover()));
        let first = own.iter().rposition(may_have)?;
        let (mut by, mut back) = (0, own[first].to);
        for hit in &own[first..] {
            if by > 0 && (hit.from > by || hit.from > back + nanos(self.settled)) {
                break;
            }
            let others = self.nodes.iter().filter(|name| *name != site_of(node));
            by = by.max(self.clear(hit.from, hit.takeover(), others));
            back = back.max(hit.to);
        }
        for _ in 0..lost {
            if let Some(lease) = self.longest_hit(own[first].from, by) {
                by = self.clear(by, takeover(lease), &self.nodes);
            }
        }
        Some((own[first], self.not_before_it_is_back(next, own[first].from, by)))
    }

    /// The end of the first span of this length in which an address that may act was there and left alone, and the database.
    fn clear<'a>(&self, from: u64, length: Duration, may: impl IntoIterator<Item = &'a String>) -> u64 {
        let length = nanos(length + self.tolerance);
        let start =
            (may.into_iter()).fold(None, |best, address| self.alone_from(address, from, length, best));
        start.unwrap_or(from).saturating_add(length)
    }

    /// When that span begins for one address, or what is the best so far.
    fn alone_from(&self, address: &str, from: u64, length: u64, best: Option<u64>) -> Option<u64> {
        let absences = self.absences(address);
        let mut start = from;
        // Behind each that is in the way, until none is.
        while best.is_none_or(|best| start < best) {
            let end = start.saturating_add(length);
            let faults = self.done.iter().filter(|d| d.from <= end);
            let faults = faults.filter_map(|d| self.over(d, address));
            let away = absences
                .iter()
                .filter(|[from, _]| *from <= end)
                .map(|[_, to]| *to);
            match faults.chain(away).filter(|after| *after > start).max() {
                Some(after) => start = after,
                None => return Some(start),
            }
        }
        best
    }

    /// When an address, or the database, can act again after a fault that hit it.
    fn over(&self, done: &Done, address: &str) -> Option<u64> {
        if done.database {
            return Some(self.resumed(done));
        }
        hits(done, address).then(|| done.to + nanos(self.settled.max(done.takeover())))
    }

    /// When no node had this address; as soon as its site has it again, it can act. There are none of a site's usual address: without
    /// that it is hit.
    fn absences(&self, address: &str) -> Vec<[u64; 2]> {
        if address == site_of(address) {
            return Vec::new();
        }
        let mut there: Vec<[u64; 2]> = self.of_node(address).filter_map(|d| d.other_address).collect();
        there.sort_unstable();
        let from = [0].into_iter().chain(there.iter().map(|[_, to]| *to));
        let to = there.iter().map(|[from, _]| *from).chain([u64::MAX]);
        from.zip(to).map(|(from, to)| [from, to]).collect()
    }

    /// Agents are connected again, and claims are open after the longest lease of the farm where the server may be another one; and
    /// by the first beginning they are.
    fn resumed(&self, outage: &Done) -> u64 {
        let latest = outage.to + nanos(GIVEN_UP + outage.takeover() + self.tolerance);
        let surely = outage.to + nanos(STARTED);
        let next = self.begun.partition_point(|begun| *begun <= surely);
        self.begun.get(next).map_or(latest, |begun| latest.min(*begun))
    }

    /// Where it was held by a node that was hit until the bound: when that is back under its address, and has started it.
    fn not_before_it_is_back(&self, address: &str, from: u64, by: u64) -> u64 {
        let faults = self.done.iter().filter(|d| hits(d, address));
        let mut away: Vec<[u64; 2]> = faults.map(|d| [d.from, d.to]).collect();
        away.extend(self.absences(address));
        away.retain(|[_, to]| from <= *to);
        away.sort_unstable();
        let mut back: u64 = 0;
        for [left, returned] in away {
            let soon_again = back > 0 && left <= back.saturating_add(nanos(STARTED));
            if left <= by || soon_again {
                back = back.max(returned);
            }
        }
        if back == 0 {
            return by;
        }
        by.max(back.saturating_add(nanos(takeover(self.shortest) + self.tolerance)))
    }

    /// The longest lease of the nodes that were hit in this time, or a moment before.
    fn longest_hit(&self, from: u64, to: u64) -> Option<Duration> {
        let hit = self.done.iter().filter(|d| d.node.is_some());
        let around = hit.filter(|d| d.from <= to && from <= d.to + nanos(SWEPT));
        around.map(|d| d.lease).max()
    }

    fn of_node(&self, node: &str) -> impl Iterator<Item = &Done> {
        let site = site_of(node).to_owned();
        (self.done.iter()).filter(move |d| d.node.as_deref() == Some(site.as_str()))
    }
}

/// Whether something was done to that address, or had just been: what begins there may have been claimed long before.
pub fn is_held_up(done: &[Done], address: &str, at: u64) -> bool {
    let around = |d: &&Done| d.from <= at && at <= d.to.saturating_add(nanos(STARTED));
    done.iter().filter(around).any(|d| hits(d, address))
}

/// A node that gets another address for a while is not hit for that one.
fn hits(done: &Done, address: &str) -> bool {
    let site = site_of(address);
    done.node.as_deref() == Some(site) && (address == site || done.other_address.is_none())
}

pub fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).expect("less than 584 years")
}
