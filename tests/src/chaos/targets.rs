//! The scheduler check: which instants should have had a run, by the job's definition alone, against what there is.
//!
//! Nothing of the agents' own bookkeeping is asked: neither `next_run` nor any plan of theirs. Targets come from the
//! expression, runs from the records and from the witness, and each is matched to the other once.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_common::core::schedule::{ParseContext, Schedule};
use jiff::Timestamp;

/// A job as its author wrote it.
#[derive(Clone, Debug)]
pub struct Definition {
    pub job: String,
    pub schedule: String,
    /// Shards; 1 for a plain job.
    pub instances: i32,
    pub each_node: bool,
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
    /// When its first attempt lived, by the database's clock.
    pub began: Option<Timestamp>,
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// No outcome for an instant.
    Missing {
        job: String,
        instance: i32,
        due: Timestamp,
        neighbours: Vec<Record>,
    },
    /// A record for what is no instant of the job.
    Extra { record: Record },
    /// Two outcomes for one instant.
    Twice { due: Timestamp, records: [Record; 2] },
    /// A folded record that counts other instants than there are.
    Miscounted { record: Record, instants: i64 },
    /// Its outcome is no final state.
    Unfinished { record: Record },
    /// It began before its time.
    Early { record: Record },
    /// It began later than the tolerance allows.
    Late { record: Record, by: Duration },
}

/// The span for which every instant must have its outcome, and how late it may begin.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Exclusive: the definition was stored before.
    pub from: Timestamp,
    /// Inclusive: the schedule was not stopped before.
    pub to: Timestamp,
    /// `None`: lateness is not judged.
    pub tolerance: Option<Duration>,
    /// By how much the clock with which beginnings were converted may be off.
    pub clock_error: Duration,
}

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

/// Matches the records of one job to its instants.
pub fn check(definition: &Definition, records: &[Record], span: &Span) -> Vec<Mismatch> {
    let mut found = Vec::new();
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

    type Place = (i32, Option<String>);
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
        judge_beginning(record, span, &mut found);
        let place = by_place
            .entry((record.instance, record.node.clone()))
            .or_default();
        for due in covered {
            if let Some(other) = place.insert(due, record) {
                found.push(Mismatch::Twice {
                    due,
                    records: [other.clone(), (*record).clone()],
                });
            }
        }
    }
    missing(definition, &targets, &own, span, &mut found);
    found
}

fn judge_beginning(record: &Record, span: &Span, found: &mut Vec<Mismatch>) {
    let Some(began) = record.began else { return };
    let lateness = began.duration_since(record.first_due);
    if lateness < -jiff::SignedDuration::try_from(span.clock_error).expect("a short time") {
        found.push(Mismatch::Early {
            record: record.clone(),
        });
    }
    let late = Duration::try_from(lateness).unwrap_or(Duration::ZERO);
    if span.tolerance.is_some_and(|tolerance| late > tolerance) {
        found.push(Mismatch::Late {
            record: record.clone(),
            by: late,
        });
    }
}

/// An instant needs an outcome of each instance; a record that is skipped as a whole stands for all of them.
fn missing(
    definition: &Definition,
    targets: &[Timestamp],
    own: &[&Record],
    span: &Span,
    found: &mut Vec<Mismatch>,
) {
    for due in targets.iter().filter(|t| span.from < **t && **t <= span.to) {
        let at: Vec<&&Record> = (own.iter())
            .filter(|r| r.first_due <= *due && *due <= r.last_due)
            .collect();
        let whole = at
            .iter()
            .any(|r| r.state == "skipped" && definition.instances > 1);
        for instance in 0..definition.instances {
            let there = at.iter().any(|r| definition.each_node || r.instance == instance);
            if !there && !whole {
                let near = jiff::SignedDuration::from_secs(6);
                let neighbours = (own.iter())
                    .filter(|r| r.last_due.duration_since(*due).abs() <= near)
                    .map(|r| (*r).clone())
                    .collect();
                found.push(Mismatch::Missing {
                    job: definition.job.clone(),
                    instance,
                    due: *due,
                    neighbours,
                });
            }
        }
    }
}
