//! Holds a history against the promises, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::windows::lasting;
use super::{Broken, History, Kind, Lives, Row, Verdict, Violation, Window, lives, site_of};
use crate::chaos::lateness::{Timed, nanos};
use crate::witness::{Seen, What};

/// A witness beats every 50 ms, later on a busy machine: a fault that began so soon after the last beat may have ended the life.
const UNTIL_NEXT_BEAT: Duration = Duration::from_millis(500);

/// Judges a history.
pub fn check(history: &History) -> Verdict {
    let lives = lives(&history.lines);
    let mut judge = Judge {
        history,
        kinds: history.kinds.iter().map(|k| (k.job.as_str(), k)).collect(),
        lives: &lives,
        rows: history.rows.iter().map(|r| (r.run, r)).collect(),
        windows: lasting(history),
        told: BTreeSet::new(),
        verdict: Verdict {
            runs: lives.len(),
            attempts: lives.values().map(BTreeMap::len).sum(),
            ..Verdict::default()
        },
    };
    judge.order();
    judge.alone();
    judge.counts();
    judge.fences();
    if !history.unfinished {
        // A fault is known when it is over: until then its takeover would be laid to one before it.
        judge.takeovers();
        judge.agents();
        judge.records();
    }
    for left in &history.left {
        judge.tell(Broken::Left, None, left.clone(), None);
    }
    judge.verdict
}

/// First and last sign of life, run, attempt and node: of what may not overlap.
type Span<'a> = (u64, u64, i64, i32, &'a str);

pub(super) struct Judge<'a> {
    pub history: &'a History,
    pub kinds: BTreeMap<&'a str, &'a Kind>,
    pub lives: &'a Lives,
    pub rows: BTreeMap<i64, &'a Row>,
    windows: Vec<Window>,
    told: BTreeSet<(Broken, i64, bool)>,
    pub verdict: Verdict,
}

impl<'a> Judge<'a> {
    /// Two lives, fences and clashes, by the order of the lines.
    fn order(&mut self) {
        let mut newest: BTreeMap<i64, &Seen> = BTreeMap::new();
        for line in &self.history.lines {
            if line.what == What::Clash {
                let what = format!("the run's lock was taken when {line:?}");
                let declared = self.excuse_older(line);
                self.tell(Broken::Clash, Some(line.run), what, declared);
            }
            let Some(before) = newest.get(&line.run) else {
                newest.insert(line.run, line);
                continue;
            };
            if line.attempt < before.attempt {
                let what = format!("{line:?} after {before:?}");
                let declared = self.excuse(line, &line.node);
                self.tell(Broken::TwoLives, Some(line.run), what, declared);
                continue;
            }
            if (line.attempt > before.attempt) != (line.fence > before.fence) || line.fence < before.fence {
                let what = format!("{line:?} after {before:?}");
                self.tell(Broken::FenceNotGrowing, Some(line.run), what, None);
            }
            newest.insert(line.run, line);
        }
    }

    /// The declared window on `node` around a line. None excuses a job with a PID namespace.
    pub fn excuse(&self, line: &Seen, node: &str) -> Option<String> {
        if self.kind(&line.job).is_some_and(|k| k.isolated) {
            return None;
        }
        self.window(node, line.at)
    }

    /// Whoever holds the lock that a line found taken is an older attempt, if anybody with an excuse.
    fn excuse_older(&self, line: &Seen) -> Option<String> {
        let older = self.lives.get(&line.run)?.range(..line.attempt);
        older.rev().find_map(|(_, life)| self.excuse(line, &life.node))
    }

    fn window(&self, node: &str, at: u64) -> Option<String> {
        let mut windows = self.windows.iter();
        let around = windows.find(|w| w.node == site_of(node) && w.from <= at && at <= w.to);
        around.map(|w| w.why.clone())
    }

    pub fn kind(&self, job: &str) -> Option<&'a Kind> {
        self.kinds.get(job).copied()
    }

    /// Runs of one job that may never live beside each other.
    fn alone(&mut self) {
        let mut by_job: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
        for (run, lives) in self.lives {
            for (attempt, life) in lives {
                if self.kind(&life.job).is_some_and(|k| k.alone) {
                    let span = (life.first, life.last, *run, *attempt, life.node.as_str());
                    by_job.entry(life.job.as_str()).or_default().push(span);
                }
            }
        }
        for (job, mut spans) in by_job {
            spans.sort_unstable();
            // All that have not ended yet: what a window excuses may hide no other.
            let mut open: Vec<Span> = Vec::new();
            for span in spans {
                open.retain(|before| before.1 > span.0);
                for before in open.iter().filter(|before| before.2 != span.2) {
                    let what = format!("two runs of {job} at once: {before:?} and {span:?}");
                    let declared = self.window(before.4, span.0);
                    self.tell(Broken::NotAlone, Some(span.2), what, declared);
                }
                open.push(span);
            }
        }
    }

    fn counts(&mut self) {
        for (run, lives) in self.lives {
            for (attempt, life) in lives {
                if life.starts > 1 {
                    let what = format!("attempt {attempt} started {} times", life.starts);
                    self.tell(Broken::StartedTwice, Some(*run), what, None);
                }
            }
            let job = &lives.values().next().expect("a run with lines has lives").job;
            if lives.len() > 1 && self.kind(job).is_some_and(|k| k.at_most_once) {
                let what = format!("{} attempts of a run of {job}", lives.len());
                self.tell(Broken::MoreThanOnce, Some(*run), what, None);
            }
        }
    }

    /// Promise 4, for every attempt after which another one followed, and on whose node something had been done.
    fn takeovers(&mut self) {
        let Some(takeover) = self.history.takeover else {
            return;
        };
        let timeline = self.history.timeline(takeover, self.lives);
        for (run, lives) in self.lives {
            for ((last, before), (attempt, after)) in lives.iter().zip(lives.iter().skip(1)) {
                if !self.kind(&before.job).is_some_and(|k| k.prompt) {
                    continue;
                }
                let lost = usize::try_from(attempt - last - 1).unwrap_or(0);
                let seen = before.last + nanos(UNTIL_NEXT_BEAT);
                let Some((fault, by)) = timeline.taken_over_by(&before.node, seen, &after.node, lost) else {
                    continue;
                };
                let timed = Timed::new(fault.from, after.first, by);
                self.verdict.takeovers.push(timed);
                if timed.is_late() {
                    let (took, within) = (timed.took, timed.within);
                    let what = format!(
                        "attempt {attempt} {took:?} after {}, within {within:?}",
                        fault.what
                    );
                    self.tell(Broken::LateTakeover, Some(*run), what, None);
                }
            }
        }
    }

    pub fn tell(&mut self, broken: Broken, run: Option<i64>, what: String, declared: Option<String>) {
        // One story per run and promise: the first, and the first that no window excuses.
        let story = (broken, run.unwrap_or(i64::MIN), declared.is_some());
        if !self.told.insert(story) && run.is_some() {
            return;
        }
        let history = run.map_or_else(Vec::new, |run| self.story(run));
        self.verdict.violations.push(Violation {
            broken,
            run,
            what,
            declared,
            history,
        });
    }

    fn story(&self, run: i64) -> Vec<String> {
        let mut story: Vec<(u64, String)> = Vec::new();
        let lives = self.lives.get(&run);
        for (attempt, life) in lives.into_iter().flatten() {
            story.push((
                life.first,
                format!("attempt {attempt} ({}) begins on {}", life.fence, life.node),
            ));
            let how = if life.ended.is_some() {
                "ends"
            } else {
                "is last seen"
            };
            story.push((life.last, format!("attempt {attempt} {how} on {}", life.node)));
        }
        let (from, to) = (
            story.iter().map(|s| s.0).min().unwrap_or(0),
            story.iter().map(|s| s.0).max().unwrap_or(0),
        );
        let around = nanos(Duration::from_secs(12));
        for done in &self.history.done {
            if done.to + around >= from && done.from <= to + around {
                let node = done.node.as_deref().unwrap_or("farm");
                story.push((done.from, format!("{node}: {} begins", done.what)));
                story.push((done.to, format!("{node}: {} is over", done.what)));
            }
        }
        story.sort();
        let mut text: Vec<String> = (story.into_iter())
            .map(|(at, what)| format!("{:>12.3} s {what}", at as f64 / 1e9))
            .collect();
        text.extend(self.rows.get(&run).map(|row| format!("recorded: {row:?}")));
        text
    }
}
