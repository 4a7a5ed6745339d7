//! The engine: one thread, one loop, at most as many processes as the stream has workers.

mod tell;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use farmhand_core::stream::{BadCheckpoint, Checkpoint, Course, Line, Step};
use farmhand_os::signal::Signals;
use jiff::Timestamp;

use self::tell::Teller;
use super::list::{self, List, Next};
use super::record::Place;
use crate::flow::output::Output;
use crate::flow::signals::Limit;
use crate::flow::spawn::Spawner;
use farmhand_core::input::stream::Handed;

/// Lines that failed and wait to be tried again; with so many, no further line is begun.
const MAX_WAITING: usize = 64;
/// Lines that are passed over or refused in one go.
const MAX_PASSED: usize = 1_000;
/// An attempt that gives up so many lines ends: the fault is hardly theirs.
pub(crate) const MAX_GIVEN_UP: u64 = 10_000;
/// How often output is shown, and its size looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Why a stream cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Checkpoint(#[from] BadCheckpoint),
    #[error("the stream cannot be run here: {0}")]
    Io(#[from] io::Error),
}

/// How a stream ended.
#[derive(Debug)]
pub struct End {
    pub interrupted: bool,
    /// Why it ended before its list did.
    pub trouble: Option<String>,
    /// Lines that were given up, in all attempts.
    pub failed: u64,
}

/// Hands the lines of a list to workers, and keeps a checkpoint.
#[derive(Debug)]
pub struct Engine {
    handed: Handed,
    list: List,
    course: Course,
    spawner: Spawner,
    signals: Signals,
    place: Place,
    teller: Teller,
    workers: BTreeMap<i32, Worker>,
    waiting: Vec<Waiting>,
    /// The list is at its end.
    ended: bool,
    /// A line was asked for, and there was none yet.
    hungry: bool,
    /// There is more to do at once.
    busy: bool,
    trouble: Option<String>,
    stopping: bool,
    /// It cannot go on.
    leaving: bool,
    given_up: u64,
    look_at: Instant,
}

/// A line that is to be handled.
#[derive(Clone, Debug)]
struct Item {
    index: u64,
    /// What the command is told; the same but in a replay.
    number: u64,
    line: Vec<u8>,
}

#[derive(Debug)]
struct Worker {
    item: Item,
    /// From 0.
    slot: usize,
    output: Output,
    /// Where the command may say that it lives; none once that is closed.
    progress: Option<OwnedFd>,
    began: Timestamp,
    limit: Limit<Killed>,
}

#[derive(Debug)]
struct Waiting {
    item: Item,
    at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Silence,
    Stop,
}

impl Engine {
    /// # Errors
    /// When there is nothing to go on from, or nothing to work with.
    pub fn new(handed: Handed, run_dir: &Path, progress: Option<OwnedFd>) -> Result<Self, EngineError> {
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
    fn leave(&mut self, why: String) {
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

    fn look_at_signals(&mut self) {
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
