//! Holds what the database recorded, and what the agents said of themselves, against what was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::judge::Judge;
use super::{Broken, Done, Kind, Life, Row, Surprise};
use crate::chaos::lateness::nanos;
use crate::chaos::stalls::STALLED;

/// Between the clock of the database and that of the witnesses. Nothing else may make a life seem longer than its record:
/// an end is reported when every process of the attempt is dead, and a run is taken away after its lease.
const CLOCKS: Duration = Duration::from_millis(100);

/// So often a run is taken over before it fails.
const MAX_TAKEOVERS: i32 = 5;

/// Why a run of one node ends that this node will never run.
pub const GONE: [&str; 2] = [REMOVED, RELABELLED];
pub const REMOVED: &str = "its node was removed";
pub const RELABELLED: &str = "the labels of its node changed";

/// What an agent says that gives up because its new warden did not come up.
const WITHOUT_WARDEN: &str = "starting the warden";

/// An agent that ends by what was done to its node has ended, and was seen to, within this.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// Its new warden was killed in the moment in which it started: by a fault, or on a machine that starves by its own lease.
fn is_explained(surprise: &Surprise, done: &[Done]) -> bool {
    let hit = |d: &Done| d.node.as_ref() == Some(&surprise.node) || d.what == STALLED;
    let before = |d: &Done| d.from <= surprise.at && surprise.at <= d.to + nanos(SEEN_WITHIN);
    let known = surprise.status == "exit status: 1" && surprise.said.contains(WITHOUT_WARDEN);
    known && done.iter().any(|d| hit(d) && before(d))
}

impl Judge<'_> {
    /// A fence grows with every claim, of whatever run.
    pub fn fences(&mut self) {
        let mut given: BTreeMap<i64, (i64, i32)> = BTreeMap::new();
        let mut claims: Vec<(i64, (i64, i32))> = Vec::new();
        for (run, lives) in self.lives {
            claims.extend(lives.iter().map(|(attempt, l)| (l.fence, (*run, *attempt))));
        }
        // Of an attempt that left no line its record knows.
        for row in self.history.rows.iter().filter(|row| !self.has_life(row)) {
            claims.extend(row.fence.map(|fence| (fence, (row.run, row.attempt))));
        }
        for (fence, claim) in claims {
            let first = *given.entry(fence).or_insert(claim);
            if first != claim {
                let what = format!("fence {fence} of run and attempt {first:?} and of {claim:?}");
                self.tell(Broken::FenceRepeated, Some(claim.0), what, None);
            }
        }
    }

    fn has_life(&self, row: &Row) -> bool {
        (self.lives.get(&row.run)).is_some_and(|lives| lives.contains_key(&row.attempt))
    }

    /// Agents that ended by themselves, and panics.
    pub fn agents(&mut self) {
        for surprise in &self.history.surprises {
            if !is_explained(surprise, &self.history.done) {
                self.tell(Broken::EndedByItself, None, format!("{surprise:?}"), None);
            }
        }
        for panic in &self.history.panics {
            self.tell(Broken::Panicked, None, panic.clone(), None);
        }
    }

    /// What the records say against what was seen.
    pub fn records(&mut self) {
        for (run, lives) in self.lives {
            let Some(row) = self.rows.get(run).copied() else {
                let job = lives.values().next().map(|life| life.job.as_str());
                let what = format!("no record of {}", job.unwrap_or("a job"));
                self.tell(Broken::Unknown, Some(*run), what, None);
                continue;
            };
            self.holder(row, lives);
            self.end_of_life(row);
        }
        for row in &self.history.rows {
            *self.verdict.ends.entry(how_ended(row)).or_default() += 1;
            if let Some(kind) = self.kind(&row.job).filter(|_| row.is_over()) {
                self.end(row, kind);
            }
        }
        self.submissions();
    }

    /// Attempt, fence and node of a record are those of the last attempt that lived, unless one without a line came after it.
    fn holder(&mut self, row: &Row, lives: &BTreeMap<i32, Life>) {
        let last = lives.keys().next_back().copied().unwrap_or(0);
        if row.attempt < last {
            let what = format!("recorded of attempt {}, and {last} lived: {row:?}", row.attempt);
            self.tell(Broken::StaleFinish, Some(row.run), what, None);
        }
        let Some(own) = lives.get(&row.attempt) else {
            return;
        };
        let elsewhere = (row.running_at.as_ref()).is_some_and(|node| *node != own.node);
        if elsewhere || row.fence.is_some_and(|fence| fence != own.fence) {
            let (attempt, fence, node) = (row.attempt, own.fence, &own.node);
            let what = format!("attempt {attempt} had fence {fence} and lived on {node}: {row:?}");
            self.tell(Broken::StaleFinish, Some(row.run), what, None);
        }
    }

    /// Whoever wrote the end: from then on nothing of the run may live.
    fn end_of_life(&mut self, row: &Row) {
        let Some(until) = row.finished_at.map(|at| at + nanos(CLOCKS)) else {
            return;
        };
        let lines = &self.history.lines;
        for line in lines.iter().filter(|l| l.run == row.run && l.at > until) {
            let declared = self.excuse(line, &line.node);
            let what = format!("{line:?} after {row:?}");
            self.tell(Broken::LifeAfterEnd, Some(row.run), what, declared);
        }
    }

    /// How a run may be recorded, from how its last attempt ended.
    fn end(&mut self, row: &Row, kind: &Kind) {
        let own = self.lives.get(&row.run).and_then(|l| l.get(&row.attempt));
        let by_then = |at: &u64| row.finished_at.is_none_or(|until| *at <= until + nanos(CLOCKS));
        let ended = own.and_then(|life| life.ended).filter(by_then).is_some();
        if row.state == "succeeded" && !ended {
            let what = format!("nobody saw attempt {} end: {row:?}", row.attempt);
            self.tell(Broken::FalseSuccess, Some(row.run), what, None);
            return;
        }
        let lived = own.is_some();
        let poisoned = row.reason.as_deref() == Some("poison") && row.takeovers >= MAX_TAKEOVERS;
        let by_exit = row.exit_code == Some(kind.exit_code) && row.signal.is_none();
        let may_be = match row.state.as_str() {
            "succeeded" => kind.exit_code == 0 && by_exit,
            "failed" if poisoned => true,
            "failed" if ended => kind.exit_code != 0 && by_exit && self.was_tried_often_enough(row, kind),
            // Only what could not be started ends by itself without a line of its own.
            "failed" => kind.in_part || (!lived && !by_exit && row.signal.is_none()),
            "lost" => kind.at_most_once,
            "skipped" => !self.lives.contains_key(&row.run),
            // Nobody cancels anything else here, and nothing has a time limit.
            "cancelled" => kind.each_node && GONE.contains(&row.reason.as_deref().unwrap_or_default()),
            _ => false,
        };
        if !may_be {
            let how = match own {
                None => "without a line",
                Some(_) if ended => "that had come to its end",
                Some(_) => "that was cut off",
            };
            let what = format!("of an attempt {how}: {row:?}");
            self.tell(Broken::WrongEnd, Some(row.run), what, None);
        }
    }

    /// Each retry is an attempt that came to its end, or one that could not be started and left no line.
    fn was_tried_often_enough(&self, row: &Row, kind: &Kind) -> bool {
        let lives = self.lives.get(&row.run);
        let tried = |attempt: &i32| {
            let life = lives.and_then(|lives| lives.get(attempt));
            life.is_none_or(|life| life.ended.is_some())
        };
        (1..=row.attempt).filter(tried).count() > kind.retries
    }

    /// Each acknowledged submission has its outcome, and each key one run.
    fn submissions(&mut self) {
        for run in &self.history.submitted {
            if self.rows.get(run).is_none_or(|row| !row.is_over()) {
                let what = format!("acknowledged: {:?}", self.rows.get(run));
                self.tell(Broken::Forgotten, Some(*run), what, None);
            }
        }
        let mut runs_of: BTreeMap<(&str, &str), BTreeSet<i64>> = BTreeMap::new();
        for row in &self.history.rows {
            if let Some(key) = &row.idempotency_key {
                runs_of.entry((&row.job, key)).or_default().insert(row.run);
            }
        }
        let made: usize = runs_of.values().map(BTreeSet::len).sum();
        for ((job, key), runs) in runs_of.iter().filter(|(_, runs)| runs.len() > 1) {
            let what = format!("{job}, {key:?}: runs {runs:?}");
            self.tell(Broken::SubmittedTwice, runs.last().copied(), what, None);
        }
        // One may have been under way when the farm came to rest.
        let acknowledged = self.history.submitted.len();
        if made > acknowledged + 1 {
            let what = format!("{made} runs of {acknowledged} acknowledged submissions");
            self.tell(Broken::SubmittedTwice, None, what, None);
        }
    }
}

/// State and reason, with what differs from run to run left out.
fn how_ended(row: &Row) -> String {
    let mut text = format!("{} {}", row.job, row.state);
    if let Some(reason) = &row.reason {
        text.push_str(": ");
        for part in reason.split_inclusive(|c: char| !c.is_ascii_digit()) {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
            text.push_str(if rest.len() < part.len() { "#" } else { "" });
            text.push_str(rest);
        }
    }
    text
}
