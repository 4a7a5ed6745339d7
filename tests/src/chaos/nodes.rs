//! The nodes of a farm, and what they went through: what a job's schedule is held against.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::gather::Clocks;
use super::lateness::{Beginning, Timed, Timeline, nanos};
use super::oracle::{Done, RELABELLED, REMOVED};
use super::targets::{Began, Definition, Record};
use crate::farm::TAKEOVER;

/// The nodes of a farm, and what they went through: what a job for each node is held against.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    pub timeline: Timeline,
    /// From the clock of the timeline to that of the records.
    pub clocks: Clocks,
    /// Addresses that were removed.
    pub removed: BTreeSet<String>,
    /// Nodes whose labels changed, and when.
    pub relabelled: Vec<(String, Timestamp)>,
}

impl Nodes {
    /// Whether a run of one node ended because that node would never run it, as it says, and never had time to.
    pub(super) fn is_gone(&self, definition: &Definition, record: &Record) -> bool {
        let Some(node) = &record.node else { return false };
        let changed =
            |(name, at): &(String, Timestamp)| name == node && record.finished.is_none_or(|end| *at <= end);
        match record.reason.as_deref() {
            Some(REMOVED) => self.removed.contains(node) && !self.had_time(definition, record, node),
            Some(RELABELLED) => self.relabelled.iter().any(changed),
            _ => false,
        }
    }

    /// Whether a run of one node that never began had to, before its end was recorded.
    fn had_time(&self, definition: &Definition, record: &Record, node: &str) -> bool {
        let beginning = Beginning {
            due: self.clocks.boot(record.first_due),
            node,
            bound: true,
            lost: usize::try_from(record.attempts).unwrap_or(0),
        };
        let late = |end| self.clocks.boot(end) > self.timeline.begins_by(&beginning);
        !definition.waits && record.finished.is_some_and(late)
    }

    /// By when a record's run must have begun that could begin at `free`, and when it did.
    pub(super) fn timed(
        &self,
        definition: &Definition,
        record: &Record,
        began: &Began,
        free: Timestamp,
    ) -> Timed {
        let due = self.clocks.boot(record.first_due);
        let beginning = Beginning {
            due: self.clocks.boot(free),
            node: &began.node,
            bound: definition.each_node,
            lost: usize::try_from(began.attempt - 1).unwrap_or(0),
        };
        Timed::new(
            due,
            self.clocks.boot(began.at),
            self.timeline.begins_by(&beginning),
        )
    }

    /// Nodes that nothing had happened to for a while, and nothing did for a while, and the database neither. What a longer lease
    /// than the shortest may hold up counts as longer.
    pub(super) fn well_at(&self, due: Timestamp) -> impl Iterator<Item = &String> {
        let timeline = &self.timeline;
        let (due, settled) = (
            self.clocks.boot(due),
            nanos(timeline.settled + timeline.tolerance),
        );
        let to = |d: &Done| d.to + nanos(d.takeover().saturating_sub(TAKEOVER));
        let around = move |d: &&Done| d.from <= due + settled && due <= to(d) + settled;
        timeline.nodes.iter().filter(move |name| {
            let hit = |d: &Done| d.database || d.node.as_ref() == Some(name);
            !timeline.done.iter().filter(around).any(hit)
        })
    }
}
