//! The engine: one thread, one loop; a task that waits is a number in memory.

mod children;
mod deadlock;
mod tell;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use farmhand_core::document::duration_text;
use farmhand_core::flow::{Course, Direction, End, Task};
use farmhand_core::graph::Graph;
use farmhand_os::signal::Signals;
use jiff::Timestamp;

use crate::flow::events::{Event, Reporter};
use crate::flow::fifo::Fifos;
use crate::flow::guardian::Guardian;
use crate::flow::output::Output;
use crate::flow::preload::Preload;
use crate::flow::report::{Record, Report};
use crate::flow::rundir::RunDir;
use crate::flow::signals::{Exit, Limit};
use crate::flow::spawn::Spawner;
use crate::locks::{self, Locks};

/// How often output is shown, and its size looked at.
const LOOK: Duration = Duration::from_millis(100);
/// For readers that are on their way to a FIFO when the flow ends.
const SETTLE: Duration = Duration::from_secs(1);

/// How a flow is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Forwards to start a system, backwards to stop it.
    pub direction: Direction,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// For tasks without one of their own.
    pub timeout: Option<Duration>,
    /// Told to stop, what runs may come to its end for so long before it is asked to end.
    pub drain: Option<Duration>,
}

/// What the engine holds on to while it runs.
#[derive(Debug)]
pub struct Tools {
    /// The names' pipes, by which programs wait for tasks.
    pub fifos: Fifos,
    pub dir: RunDir,
    pub spawner: Spawner,
    /// The library that makes tasks wait for names; none where nothing wants it.
    pub preload: Option<Preload>,
    /// What tells of signals and of children that ended.
    pub signals: Signals,
    /// What ends all tasks when the engine is killed.
    pub guardian: Guardian,
    /// Of all tasks, shared with other flows of this user on this node.
    pub locks: Locks,
    /// What tells people and programs.
    pub reporter: Reporter,
    /// Where the output of all tasks goes, as it is; none where each has a file of its own.
    pub output: Option<Passed>,
}

/// Standard output and error output of this process, or what is meant to be them.
#[derive(Debug)]
pub struct Passed {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

#[derive(Debug)]
struct Running {
    task: usize,
    /// Not a child of ours, but of the shell with the library.
    forked: Option<Forked>,
    /// None where it goes elsewhere.
    output: Option<Output>,
    limit: Limit<Killed>,
}

/// Readable when it has ended; none when it had before it could be opened.
#[derive(Debug)]
struct Forked(Option<OwnedFd>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Timeout,
    Stop,
    Deadlock,
}

/// Runs the tasks of a flow, each when those before it have ended.
#[derive(Debug)]
pub struct Engine<'f> {
    tasks: &'f [Task],
    graph: &'f Graph,
    course: Course<'f>,
    tools: Tools,
    options: Options,
    began: Instant,
    running: BTreeMap<i32, Running>,
    /// By task, from its start or its end on.
    records: Vec<Option<Box<Record>>>,
    /// Nodes, and the names that they end; sorted.
    names: Vec<(usize, &'f str)>,
    /// By node: whether its names have been told.
    told: Vec<bool>,
    /// What runs was asked to end.
    stopping: bool,
    /// When the output of what runs is next looked at.
    look_at: Instant,
    /// Looks for deadlocks.
    looks: deadlock::Looks,
    /// Until when what runs may come to its end.
    drain_until: Option<Instant>,
    /// A task waits for a lock that another process holds.
    locked_out: bool,
    interrupted: bool,
    /// What makes it impossible to go on.
    trouble: Option<String>,
}

impl<'f> Engine<'f> {
    /// An engine that has started nothing yet.
    pub fn new(
        tasks: &'f [Task],
        graph: &'f Graph,
        course: Course<'f>,
        tools: Tools,
        options: Options,
    ) -> Self {
        let mut names: Vec<_> = graph
            .names()
            .iter()
            .map(|(name, node)| (*node, &**name))
            .collect();
        names.sort_unstable();
        Self {
            tasks,
            graph,
            course,
            tools,
            options,
            began: Instant::now(),
            running: BTreeMap::new(),
            records: vec![None; tasks.len()],
            names,
            told: vec![false; graph.nodes().len()],
            stopping: false,
            look_at: Instant::now(),
            looks: deadlock::Looks::new(),
            drain_until: None,
            locked_out: false,
            interrupted: false,
            trouble: None,
        }
    }

    /// Runs the flow to its end.
    pub fn run(mut self) -> Report {
        self.announce();
        loop {
            self.course.wake(self.began.elapsed());
            while self.tell_news() | self.start_ready() {}
            if let Err(error) = self.tools.reporter.flush() {
                self.give_up(format!("nobody takes this flow's output: {error}"));
            }
            self.take_notices();
            if self.course.is_over() {
                break;
            }
            self.pause();
            self.look_at_signals();
            self.reap();
            self.reap_forked();
            self.enforce_time();
            self.look_for_deadlock();
        }
        self.finish()
    }

    /// Nothing more starts, and what runs is ended.
    fn give_up(&mut self, why: String) {
        if self.trouble.is_none() {
            self.trouble = Some(why);
            // Who was asked to end already has its grace; a second time would kill it.
            if !self.stopping {
                self.stop();
            }
        }
    }

    fn stop(&mut self) {
        self.course.cancel();
        let signal = if self.stopping {
            libc::SIGKILL
        } else {
            libc::SIGTERM
        };
        for (pid, running) in &mut self.running {
            running.limit.end(*pid, signal, Killed::Stop, self.options.grace);
        }
        self.stopping = true;
    }

    fn record(&mut self, task: usize) -> &mut Record {
        self.records[task].get_or_insert_default()
    }

    fn end(&mut self, task: usize, exit: Option<Exit>, end: End) {
        let now = self.began.elapsed();
        let code = match (&end, &exit) {
            (End::Failed { exit_code }, _) => Some(*exit_code),
            (_, exit) => exit.as_ref().map(Exit::shell_code),
        };
        let record = self.record(task);
        record.ended = Some(now);
        record.exit = exit;
        let attempt = self.course.tries(task);
        let locks = &self.tasks[task].extras.locks;
        self.tools.locks.release(locks.iter().map(String::as_str));
        let Some(again) = self.course.ended(task, end, now, random()) else {
            return;
        };
        let record = self.records[task].get_or_insert_default();
        self.tools.reporter.event(&Event::Retry {
            task: self.tasks[task].name(),
            at: Timestamp::now(),
            elapsed_us: micros(now),
            attempt,
            failed: again.failed,
            exit_code: code,
            signal: record.exit.and_then(|exit| exit.signal),
            reason: record.reason.take().as_deref(),
            delay_ms: micros(again.after) / 1000,
        });
        if self.tasks[task].extras.rounds.is_some() {
            self.records[task] = None;
        }
    }

    /// Sleeps until a child ends, a FIFO is due, or time is up for something.
    fn pause(&mut self) {
        let now = Instant::now();
        let mut next = self.tools.fifos.tick(now);
        let mut sooner = |at: Option<Instant>| next = [next, at].into_iter().flatten().min();
        sooner(self.next_look());
        sooner(self.drain_until);
        sooner(self.locked_out.then(|| now + locks::LOOK));
        let shown = self.running.values().any(|r| r.output.is_some());
        sooner(shown.then_some(self.look_at));
        self.running.values().for_each(|r| sooner(r.limit.at));
        sooner(self.course.next_try().map(|at| self.began + at));
        let forked = self.running.values().filter_map(Running::watch);
        let inotify = self.tools.fifos.inotify();
        self.tools.signals.sleep(next, inotify.into_iter().chain(forked));
    }

    fn look_at_signals(&mut self) {
        for signal in self.tools.signals.take() {
            match self.options.drain {
                Some(_) if signal == libc::SIGQUIT => {
                    self.stopping = true;
                    self.interrupt();
                }
                Some(within) if self.drain_until.is_none() && !self.stopping => {
                    let left = self.course.cancel().len();
                    let within_text = duration_text(within);
                    let said = format!("stopping: {left} still run, for {within_text} at most");
                    self.tools.reporter.say(&said);
                    self.drain_until = Some(Instant::now() + within);
                }
                _ => self.interrupt(),
            }
        }
    }

    fn interrupt(&mut self) {
        self.interrupted = true;
        self.drain_until = None;
        self.stop();
    }

    fn enforce_time(&mut self) {
        let now = Instant::now();
        let grace = self.options.grace;
        for (pid, running) in &mut self.running {
            running.limit.enforce(*pid, Killed::Timeout, grace);
        }
        if self.drain_until.is_some_and(|at| at <= now) && !self.running.is_empty() {
            self.interrupt();
        }
        if now < self.look_at {
            return;
        }
        let mut more = false;
        for one in self.running.values_mut() {
            let name = self.tasks[one.task].name();
            more |= one.show(name, &mut self.tools.reporter, false);
        }
        self.look_at = if more { now } else { now + LOOK };
    }

    fn finish(mut self) -> Report {
        self.tools.fifos.settle(SETTLE);
        let flushed = self.tools.reporter.flush();
        self.tools.reporter.finish();
        if let Some(shell) = self.tools.preload {
            shell.finish();
        }
        self.tools.guardian.dismiss();
        self.tools.dir.forget_memory();
        let trouble = self
            .trouble
            .or(flushed.err().map(|e| format!("its end cannot be told: {e}")));
        Report {
            records: self
                .records
                .into_iter()
                .map(|r| r.map_or_else(Record::default, |r| *r))
                .collect(),
            elapsed: self.began.elapsed(),
            interrupted: self.interrupted,
            trouble,
            dir: self.tools.dir,
        }
    }
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

fn random() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    high ^ low.rotate_left(32)
}
