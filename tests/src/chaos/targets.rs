//! The scheduler check: which instants should have had a run, by the job's definition alone, against what there is.
//!
//! Nothing of the agents' own bookkeeping is asked: neither `next_run` nor any plan of theirs. Targets come from the
//! expression, runs from the records and from the witness, and each is matched to the other once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use farmhand_core::schedule::{ParseContext, Schedule};
use jiff::Timestamp;

use super::lateness::Timed;
use super::nodes::Nodes;

/// A job as its author wrote it.
#[derive(Clone, Debug)]
pub struct Definition {
    pub job: String,
    pub schedule: String,
    /// Shards; 1 for a plain job.
    pub instances: i32,
    pub each_node: bool,
    /// An instant may be skipped because a run of an earlier one goes on.
    pub skips: bool,
    /// Of the nodes only those with a label run it, which may change.
    pub placed: bool,
    /// Its runs wait for other runs, or for a label: they may begin late.
    pub waits: bool,
}

/// One record of an outcome, which may be that of several neighbouring instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub run: i64,
    pub job: String,
    pub instance: i32,
    pub node: Option<String>,
    pub state: String,
    pub reason: Option<String>,
    pub first_due: Timestamp,
    pub last_due: Timestamp,
    pub count: i64,
    /// Of its first attempt that left a line.
    pub began: Option<Began>,
    /// How many attempts it had, with lines and without.
    pub attempts: i32,
    /// Where its attempts lived.
    pub lived_on: BTreeSet<String>,
    /// When its end was recorded.
    pub finished: Option<Timestamp>,
}

/// How the first attempt of a run began that left a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    /// By the database's clock.
    pub at: Timestamp,
    pub node: String,
    pub attempt: i32,
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// No outcome for an instant.
    Missing {
        job: String,
        instance: i32,
        /// Of a job for each node: the one that was well and was given none.
        node: Option<String>,
        due: Timestamp,
        neighbours: Vec<Record>,
    },
    /// A record for what is no instant of the job.
    Extra { record: Record },
    /// Two outcomes for one instant.
    Twice {
        due: Timestamp,
        records: Box<[Record; 2]>,
    },
    /// A folded record that counts other instants than there are.
    Miscounted { record: Record, instants: i64 },
    /// A run for one node lived on another.
    Elsewhere { record: Record },
    /// Skipped, although nothing went on that it had to be skipped for.
    Skipped { record: Record },
    /// Its outcome is no final state.
    Unfinished { record: Record },
    /// It began before its time.
    Early { record: Record },
    /// It began later than what was done to the farm allows.
    Late { record: Record, timed: Timed },
}

/// The span for which every instant must have its outcome.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Exclusive: the definition was stored before.
    pub from: Timestamp,
    /// Inclusive: the schedule was not stopped before.
    pub to: Timestamp,
    /// By how much the clock with which beginnings were converted may be off.
    pub clock_error: Duration,
}

/// What came of the instants of one job.
#[derive(Clone, Debug, Default)]
pub struct Matched {
    pub mismatches: Vec<Mismatch>,
    /// Instants, times instances, that have a record.
    pub instants: usize,
    /// Those of them whose record is that of a skip.
    pub skipped: usize,
    /// From the instant to the first line of its run.
    pub begun: Vec<Timed>,
}

/// How long the end of a run may take to be seen by whoever decides on the next instant: a commit waits for the standby.
const SEEN_WITHIN: Duration = Duration::from_secs(15);

/// Every instant of a definition after `from`, up to `to`.
///
/// # Panics
/// When the expression cannot be read.
pub fn instants(definition: &Definition, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let context = ParseContext {
        job: &definition.job,
        ..ParseContext::default()
    };
    let schedule = Schedule::parse(&[&definition.schedule], &context).expect("a schedule of the suite's own");
    schedule.iter_after(from).take_while(|at| *at <= to).collect()
}

/// Instance and node.
type Place = (i32, Option<String>);

/// Matches the records of one job to its instants.
pub fn check(definition: &Definition, records: &[Record], span: &Span, nodes: &Nodes) -> Matched {
    let (mut found, mut begun) = (Vec::new(), Vec::new());
    let own: Vec<&Record> = records.iter().filter(|r| r.job == definition.job).collect();
    let last = own
        .iter()
        .map(|r| r.last_due)
        .max()
        .unwrap_or(span.to)
        .max(span.to);
    let first = own.iter().map(|r| r.first_due).min().unwrap_or(span.from);
    let before_first = first.min(span.from) - Duration::from_secs(1);
    let targets = instants(definition, before_first, last);

    let mut by_place: BTreeMap<Place, BTreeMap<Timestamp, &Record>> = BTreeMap::new();
    for record in &own {
        let covered: Vec<Timestamp> = (targets.iter().copied())
            .filter(|t| record.first_due <= *t && *t <= record.last_due)
            .collect();
        let ends_fit = covered.first() == Some(&record.first_due) && covered.last() == Some(&record.last_due);
        if !ends_fit {
            found.push(Mismatch::Extra {
                record: (*record).clone(),
            });
            continue;
        }
        // A skip of an each-node job is one record for all nodes; a skip of shards one for all shards.
        if covered.len() as i64 != record.count {
            found.push(Mismatch::Miscounted {
                record: (*record).clone(),
                instants: covered.len() as i64,
            });
        }
        if matches!(record.state.as_str(), "due" | "running") {
            found.push(Mismatch::Unfinished {
                record: (*record).clone(),
            });
        }
        begun.extend(judge_beginning(definition, &own, record, span, nodes, &mut found));
        judge_place(definition, &own, record, span, nodes, &mut found);
        let place = by_place
            .entry((record.instance, record.node.clone()))
            .or_default();
        for due in covered {
            if let Some(other) = place.insert(due, record) {
                found.push(Mismatch::Twice {
                    due,
                    records: Box::new([other.clone(), (*record).clone()]),
                });
            }
        }
    }
    twice_as_a_whole(&by_place, &mut found);
    let mut matched = Matched {
        mismatches: found,
        begun,
        ..Matched::default()
    };
    for due in targets.iter().filter(|t| span.from < **t && **t <= span.to) {
        outcomes(definition, *due, &own, nodes, &mut matched);
    }
    matched
}

/// What is skipped for all nodes at once has no other outcome on any.
fn twice_as_a_whole(by_place: &BTreeMap<Place, BTreeMap<Timestamp, &Record>>, found: &mut Vec<Mismatch>) {
    let whole = by_place.iter().filter(|((_, node), _)| node.is_none());
    for (due, record) in whole.flat_map(|(_, at)| at) {
        let of_nodes = by_place.iter().filter(|((_, node), _)| node.is_some());
        if let Some(other) = of_nodes.filter_map(|(_, at)| at.get(due)).next() {
            found.push(Mismatch::Twice {
                due: *due,
                records: Box::new([(*record).clone(), (*other).clone()]),
            });
        }
    }
}

/// On another node than its own, or skipped for nothing.
fn judge_place(
    definition: &Definition,
    own: &[&Record],
    record: &Record,
    span: &Span,
    nodes: &Nodes,
    found: &mut Vec<Mismatch>,
) {
    if let Some(node) = &record.node
        && record.lived_on.iter().any(|other| other != node)
    {
        found.push(Mismatch::Elsewhere {
            record: record.clone(),
        });
    }
    let in_span = span.from < record.first_due && record.last_due <= span.to;
    // That no node was there is judged by which nodes were.
    let no_node = definition.each_node && record.node.is_none();
    let may_be =
        no_node || nodes.is_gone(definition, record) || (definition.skips && had_a_rival(own, record));
    if in_span && record.state == "skipped" && !may_be {
        found.push(Mismatch::Skipped {
            record: record.clone(),
        });
    }
}

/// Whether a run of an earlier instant went on when this one was due, as far as records can tell.
fn had_a_rival(own: &[&Record], skip: &Record) -> bool {
    own.iter().any(|r| {
        let goes_on = |at: Timestamp| at + SEEN_WITHIN >= skip.first_due;
        r.state != "skipped" && r.first_due < skip.first_due && r.finished.is_none_or(goes_on)
    })
}

/// Too early, or too late where nothing makes it wait.
fn judge_beginning(
    definition: &Definition,
    own: &[&Record],
    record: &Record,
    span: &Span,
    nodes: &Nodes,
    found: &mut Vec<Mismatch>,
) -> Option<Timed> {
    let began = record.began.as_ref()?;
    let lateness = began.at.duration_since(record.first_due);
    if lateness < -jiff::SignedDuration::try_from(span.clock_error).expect("a short time") {
        found.push(Mismatch::Early {
            record: record.clone(),
        });
    }
    if definition.waits {
        return None;
    }
    // What an outage made late is made up for one after the other.
    let before = own
        .iter()
        .filter(|r| definition.skips && r.first_due < record.first_due);
    let ends = before.filter_map(|r| r.finished).filter(|end| *end <= began.at);
    let free = ends.fold(record.first_due, Timestamp::max);
    let timed = nodes.timed(definition, record, began, free);
    if timed.is_late() {
        found.push(Mismatch::Late {
            record: record.clone(),
            timed,
        });
    }
    Some(timed)
}

/// An instant needs an outcome of each instance; a record that is skipped as a whole stands for all of them. One of a job
/// for each node needs the outcome of each node that was well.
fn outcomes(definition: &Definition, due: Timestamp, own: &[&Record], nodes: &Nodes, matched: &mut Matched) {
    let at: Vec<&Record> = (own.iter().copied())
        .filter(|r| r.first_due <= due && due <= r.last_due)
        .collect();
    let skip = |r: &&&Record| r.state == "skipped";
    let whole = at.iter().find(skip).filter(|_| definition.instances > 1);
    for instance in 0..definition.instances {
        let there = (at.iter()).find(|r| definition.each_node || r.instance == instance);
        let Some(record) = there.or(whole) else {
            matched
                .mismatches
                .push(missing(definition, instance, None, due, own));
            continue;
        };
        matched.instants += 1;
        matched.skipped += usize::from(record.state == "skipped");
    }
    if definition.each_node && !definition.placed && !at.is_empty() {
        for node in nodes.well_at(due) {
            if !at.iter().any(|r| r.node.as_ref() == Some(node)) {
                (matched.mismatches).push(missing(definition, 0, Some(node), due, own));
            }
        }
    }
}

fn missing(
    definition: &Definition,
    instance: i32,
    node: Option<&String>,
    due: Timestamp,
    own: &[&Record],
) -> Mismatch {
    let near = jiff::SignedDuration::from_secs(6);
    let neighbours = own
        .iter()
        .filter(|r| r.last_due.duration_since(due).abs() <= near);
    Mismatch::Missing {
        job: definition.job.clone(),
        instance,
        node: node.cloned(),
        due,
        neighbours: neighbours.map(|r| (*r).clone()).collect(),
    }
}
