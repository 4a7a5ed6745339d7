//! What an engine says: its checkpoint to the warden, its commands' output and its own words to the log.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use farmhand_core::stream::Checkpoint;

use crate::flow::events::{Reporter, Style};
use crate::flow::output::Output;

/// Between two reports.
const REPORT: Duration = Duration::from_millis(200);
/// How often the rate is counted anew.
const COUNT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Teller {
    log: Reporter,
    /// None outside of an attempt.
    progress: Option<std::fs::File>,
    alive: Option<Duration>,
    list: u64,
    told: Option<Checkpoint>,
    told_at: Instant,
    /// There is more to tell than was told.
    due: bool,
    pace: Pace,
    rate: (f64, Instant),
}

impl Teller {
    pub(super) fn new(progress: Option<OwnedFd>, alive: Option<Duration>, list: u64) -> Self {
        let now = Instant::now();
        Self {
            log: Reporter::new(Style::People, &[], 0),
            progress: progress.map(Into::into),
            alive,
            list,
            told: None,
            told_at: now,
            due: false,
            pace: Pace::default(),
            rate: (0.0, now),
        }
    }

    /// Hands on what was collected.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.log.flush()
    }

    /// A line for people, in the run's log.
    pub(super) fn say(&mut self, text: &str) {
        self.log.say(text);
    }

    /// Whether there is more to show.
    pub(super) fn show(&mut self, number: u64, output: &mut Output, end: bool) -> bool {
        let name = number.to_string();
        output.show(&mut self.log, (&name, &format!("line {name}")), end)
    }

    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let alive = self.alive.map(|alive| self.told_at + alive);
        let due = self.due.then_some((self.told_at + REPORT).max(now));
        [alive, due].into_iter().flatten().min()
    }

    /// Whether the last report is too young for another; there will be one.
    pub(super) fn is_early(&mut self, now: Instant) -> bool {
        self.due = self.told.is_some() && now.duration_since(self.told_at) < REPORT;
        self.due
    }

    /// Reports a checkpoint that says something new; with `last`, in any case.
    pub(super) fn report(&mut self, mut checkpoint: Checkpoint, now: Instant, last: bool) {
        checkpoint.list = self.list;
        let done = checkpoint.succeeded + checkpoint.failed;
        if last || now.duration_since(self.rate.1) >= COUNT || self.told.is_none() {
            self.rate = (self.pace.at(now, done), now);
        }
        checkpoint.rate = self.rate.0;
        self.due = false;
        if last || self.told.as_ref() != Some(&checkpoint) {
            let text = checkpoint.text();
            self.write(&text, now);
            self.told = Some(checkpoint);
        } else if self
            .alive
            .is_some_and(|alive| now.duration_since(self.told_at) >= alive)
        {
            self.write("", now);
        }
    }

    /// One write of at most PIPE_BUF bytes. Without a warden nobody is left who would go on.
    fn write(&mut self, text: &str, now: Instant) {
        self.told_at = now;
        if let Some(progress) = &mut self.progress {
            let _ = progress.write_all(format!("{text}\n").as_bytes());
        }
    }
}

/// The last of several moments and how much had been done at each: how fast it goes.
#[derive(Debug, Default)]
struct Pace(VecDeque<(Instant, u64)>);

impl Pace {
    const OVER: Duration = Duration::from_secs(60);

    /// In a second, rounded.
    fn at(&mut self, now: Instant, done: u64) -> f64 {
        self.0.push_back((now, done));
        while self
            .0
            .front()
            .is_some_and(|(at, _)| now.duration_since(*at) > Self::OVER)
        {
            self.0.pop_front();
        }
        let Some((since, before)) = self.0.front() else {
            return 0.0;
        };
        let time = now.duration_since(*since).as_secs_f64();
        let rate = if time > 0.0 {
            (done - before) as f64 / time
        } else {
            0.0
        };
        (rate * 10.0).round() / 10.0
    }
}
