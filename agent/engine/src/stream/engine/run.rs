//! The loop: one thread, at most as many processes as the stream has workers.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use farmhand_core::input::stream::StreamInput;
use farmhand_core::stream::{Checkpoint, Course, Line, Step};
use farmhand_os::signal::Signals;

use super::state::{End, EngineError, Item, Killed, StreamEngine};
use super::teller::Teller;
use crate::flow::spawn::Spawner;
use crate::stream::list::{self, List, Next};
use crate::stream::record::Place;

/// Lines that failed and wait to be tried again; with so many, no further line is begun.
const MAX_WAITING: usize = 64;
/// Lines that are passed over or refused in one go.
const MAX_PASSED: usize = 1_000;
/// How often output is shown, and its size looked at.
const LOOK: Duration = Duration::from_millis(100);

impl StreamEngine {
    /// Errors: When there is nothing to go on from, or nothing to work with.
    pub fn new(handed: StreamInput, run_dir: &Path, progress: Option<OwnedFd>) -> Result<Self, EngineError> {
        let list_name = list::name(&handed.from);
        let mut from = match &handed.checkpoint {
            Some(text) => Checkpoint::parse(text)?,
            None => Checkpoint::default(),
        };
        if from.list != list_name {
            // Of another list: the file of another day.
            from = Checkpoint::of(list_name);
        }
        let signals = Signals::block()?;
        let spawner = Spawner::new(&[])?;
        let list = List::open(&handed.from, handed.only.as_deref(), &from, &spawner)?;
        let alive = handed.alive_ms.map(Duration::from_millis);
        Ok(Self {
            course: Course::new(&from, &handed.recorded),
            list,
            spawner,
            signals,
            place: Place::make(run_dir)?,
            teller: Teller::new(progress, alive, list_name),
            workers: BTreeMap::new(),
            waiting: Vec::new(),
            ended: false,
            hungry: false,
            busy: false,
            trouble: None,
            stopping: false,
            leaving: false,
            given_up: 0,
            look_at: Instant::now(),
            handed,
        })
    }

    /// Runs the stream to its end.
    pub fn run(mut self) -> End {
        loop {
            let now = Instant::now();
            self.begin_more(now);
            self.tell(now, false);
            if self.is_over() {
                break;
            }
            self.pause(now);
            self.reap();
            self.hear();
            self.enforce_time();
        }
        self.list.signal(libc::SIGKILL);
        self.tell(Instant::now(), true);
        let (_, failed) = self.course.counts();
        End {
            interrupted: self.stopping,
            trouble: self.trouble,
            failed,
        }
    }

    fn is_over(&self) -> bool {
        let nothing_left = self.ended && self.waiting.is_empty();
        self.workers.is_empty() && (nothing_left || self.is_leaving())
    }

    /// Nothing more is begun.
    fn is_leaving(&self) -> bool {
        self.stopping || self.leaving
    }

    /// Nothing more is begun, and what runs may come to its end.
    pub(super) fn leave(&mut self, why: String) {
        self.teller.say(&why);
        self.trouble.get_or_insert(why);
        self.leaving = true;
    }

    fn begin_more(&mut self, now: Instant) {
        (self.hungry, self.busy) = (false, false);
        let most = self.handed.workers.max(1) as usize;
        for _ in 0..MAX_PASSED {
            if self.is_leaving() || self.workers.len() >= most {
                return;
            }
            if let Some(index) = self.waiting.iter().position(|waiting| waiting.at <= now) {
                let item = self.waiting.swap_remove(index).item;
                self.start(item, now);
                continue;
            }
            if self.ended || self.waiting.len() >= MAX_WAITING || !self.course.has_room() {
                return;
            }
            match self.list.next(now) {
                Next::Line(read) => self.take(read, now),
                Next::Passed => {}
                Next::Later => {
                    self.hungry = true;
                    return;
                }
                Next::End => self.ended = true,
                Next::Broken(why) => {
                    // What was read of it is good.
                    self.ended = true;
                    self.teller.say(&why);
                    self.trouble = Some(why);
                }
            }
        }
        self.busy = true;
    }

    fn take(&mut self, read: list::Read, now: Instant) {
        let Step::Run(index) = self.course.read(read.end, read.mark) else {
            return;
        };
        let number = read.number.unwrap_or(index);
        match read.line {
            Line::Whole(line) => self.start(Item { index, number, line }, now),
            Line::Refused { start, why } => {
                let item = Item {
                    index,
                    number,
                    line: start,
                };
                self.refuse(&item, &why.to_string());
            }
        }
    }

    /// Sleeps until a child ends, a line comes, or time is up for something.
    fn pause(&mut self, now: Instant) {
        let mut next: Option<Instant> = self.teller.next_wake(now);
        let mut sooner = |at: Option<Instant>| next = [next, at].into_iter().flatten().min();
        let free = self.workers.len() < self.handed.workers.max(1) as usize;
        if self.busy {
            sooner(Some(now));
        }
        if self.hungry {
            sooner(self.list.wake());
        }
        if free && !self.is_leaving() {
            self.waiting.iter().for_each(|waiting| sooner(Some(waiting.at)));
        }
        for worker in self.workers.values() {
            sooner(worker.limit.at);
        }
        sooner((!self.workers.is_empty()).then_some(self.look_at));
        let list = self.list.fd().filter(|_| self.hungry);
        let reports = self
            .workers
            .values()
            .filter_map(|w| Some(w.progress.as_ref()?.as_fd()));
        self.signals.sleep(next, list.into_iter().chain(reports));
    }

    fn tell(&mut self, now: Instant, last: bool) {
        if let Err(error) = self.teller.flush() {
            // The warden takes all output while it lives.
            self.trouble
                .get_or_insert(format!("nobody takes this stream's output: {error}"));
            self.stopping = true;
        }
        if !last && self.teller.is_early(now) {
            return;
        }
        let mut checkpoint = self.course.checkpoint();
        checkpoint.now = self.workers.values().map(|worker| worker.item.number).collect();
        checkpoint.now.sort_unstable();
        checkpoint.waits = self.list.waits();
        if last {
            let (_, failed) = self.course.counts();
            checkpoint.why = self.trouble.clone().or_else(|| match (self.stopping, failed) {
                (true, _) | (_, 0) => None,
                (false, 1) => Some("1 line failed".to_owned()),
                (false, failed) => Some(format!("{failed} lines failed")),
            });
        }
        self.teller.report(checkpoint, now, last);
    }

    pub(super) fn look_at_signals(&mut self) {
        for _ in self.signals.take() {
            let signal = if self.stopping {
                libc::SIGKILL
            } else {
                libc::SIGTERM
            };
            self.stopping = true;
            self.list.signal(signal);
            let grace = Duration::from_millis(self.handed.grace_ms);
            for (pid, worker) in &mut self.workers {
                worker.limit.end(*pid, signal, Killed::Stop, grace);
            }
        }
    }

    fn enforce_time(&mut self) {
        let now = Instant::now();
        let grace = Duration::from_millis(self.handed.grace_ms);
        for (pid, worker) in &mut self.workers {
            worker.limit.enforce(*pid, Killed::Silence, grace);
        }
        if now < self.look_at {
            return;
        }
        let mut more = false;
        for worker in self.workers.values_mut() {
            more |= self.teller.show(worker.item.number, &mut worker.output, false);
        }
        self.look_at = if more { now } else { now + LOOK };
    }
}
