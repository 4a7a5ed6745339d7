//! The loop: one thread; a task that waits is a number in memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use farmhand_core::document::duration_text;
use farmhand_core::flow::{Course, End, Task};
use farmhand_core::graph::Graph;
use farmhand_os::random::random;
use jiff::Timestamp;

use super::state::{FlowEngine, Killed, Looks, Options, Running, Tools};
use crate::flow::events::{Event, micros};
use crate::flow::report::{Record, Report};
use crate::flow::signals::Exit;
use crate::locks;

/// How often output is shown, and its size looked at.
const LOOK: Duration = Duration::from_millis(100);
/// For readers that are on their way to a FIFO when the flow ends.
const SETTLE: Duration = Duration::from_secs(1);

impl<'f> FlowEngine<'f> {
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
            looks: Looks::new(),
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
    pub(super) fn give_up(&mut self, why: String) {
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

    pub(super) fn record(&mut self, task: usize) -> &mut Record {
        self.records[task].get_or_insert_default()
    }

    pub(super) fn end(&mut self, task: usize, exit: Option<Exit>, end: End) {
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
