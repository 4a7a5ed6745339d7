//! The engine: one thread, one loop; a task that waits is a number in memory.

mod tell;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use farmhand_common::core::definition::Command;
use farmhand_common::core::flow::{Action, Course, Direction, End, Task};
use farmhand_common::core::graph::Graph;
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::flow::events::{Event, Reporter};
use crate::flow::fifo::Fifos;
use crate::flow::guardian::Guardian;
use crate::flow::output::Output;
use crate::flow::report::{Record, Report};
use crate::flow::rundir::RunDir;
use crate::flow::signals::{Ended, Exit, Signals, signal_group};
use crate::flow::spawn::Spawner;

/// How often output is shown, and its size looked at.
const LOOK: Duration = Duration::from_millis(100);
/// For readers that are on their way to a FIFO when the flow ends.
const SETTLE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub direction: Direction,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// For tasks without one of their own.
    pub timeout: Option<Duration>,
}

/// What the engine holds on to while it runs.
#[derive(Debug)]
pub struct Tools {
    pub fifos: Fifos,
    pub dir: RunDir,
    pub spawner: Spawner,
    pub signals: Signals,
    pub guardian: Guardian,
    pub reporter: Reporter,
}

#[derive(Debug)]
struct Running {
    task: usize,
    output: Output,
    deadline: Option<Instant>,
    killed: Option<Killed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Timeout,
    Stop,
}

#[derive(Debug)]
pub struct Engine<'f> {
    tasks: &'f [Task],
    graph: &'f Graph,
    course: Course<'f>,
    tools: Tools,
    options: Options,
    began: Instant,
    running: BTreeMap<i32, Running>,
    records: Vec<Record>,
    /// By node: the names that it ends, until it has.
    names: Vec<Vec<String>>,
    /// When what was asked to end is killed.
    kill_at: Option<Instant>,
    interrupted: bool,
    /// What makes it impossible to go on.
    trouble: Option<String>,
}

impl<'f> Engine<'f> {
    pub fn new(
        tasks: &'f [Task],
        graph: &'f Graph,
        course: Course<'f>,
        tools: Tools,
        options: Options,
    ) -> Self {
        let mut names = vec![Vec::new(); graph.nodes().len()];
        for (name, node) in graph.names() {
            names[*node].push(name.clone());
        }
        Self {
            tasks,
            graph,
            course,
            tools,
            options,
            began: Instant::now(),
            running: BTreeMap::new(),
            records: vec![Record::default(); tasks.len()],
            names,
            kill_at: None,
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
            self.enforce_time();
        }
        self.finish()
    }

    /// Nothing more starts, and what runs is ended.
    fn give_up(&mut self, why: String) {
        if self.trouble.is_none() {
            self.trouble = Some(why);
            self.stop();
        }
    }

    fn stop(&mut self) {
        let now = Instant::now();
        self.course.cancel();
        let signal = if self.kill_at.is_some() {
            libc::SIGKILL
        } else {
            libc::SIGTERM
        };
        for (pid, running) in &mut self.running {
            running.killed = running.killed.or(Some(Killed::Stop));
            signal_group(*pid, signal);
        }
        self.kill_at = Some(now + self.options.grace);
    }

    /// Starts all that may start. Whether something ended at once.
    fn start_ready(&mut self) -> bool {
        let mut ended = false;
        while let Some(task) = self.course.start() {
            ended |= self.start(task);
        }
        ended
    }

    fn start(&mut self, task: usize) -> bool {
        let began = self.began;
        let definition = &self.tasks[task];
        self.records[task].started.get_or_insert_with(|| began.elapsed());
        let attempt = self.course.tries(task);
        if attempt == 1 {
            self.tools.reporter.event(&Event::Start {
                task: definition.name(),
                at: Timestamp::now(),
                elapsed_us: micros(began.elapsed()),
                attempt,
            });
        }
        let Some(argv) = argv(&definition.action, self.options.direction) else {
            self.end(task, None, End::Succeeded);
            return true;
        };
        let output = self.tools.dir.log(definition.name()).and_then(Output::new);
        let mut output = match output {
            Ok(output) => output,
            Err(error) => {
                self.give_up(format!(
                    "the output of `{}` cannot be kept: {error}",
                    definition.name()
                ));
                self.end(task, None, End::Cancelled);
                return true;
            }
        };
        let mut variables = vec![("FARMHAND_TASK".to_owned(), definition.name().to_owned())];
        variables.extend(definition.env.iter().map(|(n, v)| (n.clone(), v.clone())));
        match self.tools.spawner.spawn(&argv, &variables, output.fd()) {
            Ok(pid) => {
                let timeout = definition.timeout.or(self.options.timeout);
                let running = Running {
                    task,
                    output,
                    deadline: timeout.map(|t| Instant::now() + t),
                    killed: None,
                };
                self.running.insert(pid, running);
                false
            }
            Err(error) => {
                let program = argv[0].to_string_lossy();
                let reason = format!("{program} cannot be executed: {error}");
                // The reason is told in any case.
                let _ = writeln!(output.file(), "{reason}");
                self.records[task].reason = Some(reason);
                let exit_code = if error.kind() == io::ErrorKind::NotFound {
                    127
                } else {
                    126
                };
                self.end(task, None, End::Failed { exit_code });
                true
            }
        }
    }

    fn end(&mut self, task: usize, exit: Option<Exit>, end: End) {
        let now = self.began.elapsed();
        let code = match (&end, &exit) {
            (End::Failed { exit_code }, _) => Some(*exit_code),
            (_, exit) => exit.as_ref().map(Exit::shell_code),
        };
        let record = &mut self.records[task];
        record.ended = Some(now);
        record.exit = exit;
        let attempt = self.course.tries(task);
        if let Some(delay) = self.course.ended(task, end, now, random()) {
            self.tools.reporter.event(&Event::Retry {
                task: self.tasks[task].name(),
                at: Timestamp::now(),
                elapsed_us: micros(now),
                attempt,
                exit_code: code,
                delay_ms: micros(delay) / 1000,
            });
        }
    }

    /// Sleeps until a child ends, a FIFO is due, or time is up for something.
    fn pause(&mut self) {
        let now = Instant::now();
        let mut next = self.tools.fifos.tick(now);
        let mut sooner = |at: Option<Instant>| next = [next, at].into_iter().flatten().min();
        sooner(self.kill_at);
        sooner((!self.running.is_empty()).then_some(now + LOOK));
        self.running.values().for_each(|r| sooner(r.deadline));
        sooner(self.course.wake(self.began.elapsed()).map(|at| self.began + at));
        let time = next.map(|at| {
            let left = at.saturating_duration_since(now);
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let signals = self.tools.signals.fd();
        let mut fds = vec![PollFd::from_borrowed_fd(signals, PollFlags::IN)];
        fds.extend(
            self.tools
                .fifos
                .inotify()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        // Whatever ends the sleep, everything is looked at.
        let _ = poll(&mut fds, time.as_ref());
    }

    fn look_at_signals(&mut self) {
        for _ in 0..self.tools.signals.take() {
            self.interrupted = true;
            self.stop();
        }
    }

    fn reap(&mut self) {
        while let Some(ended) = Ended::next() {
            let killed = self.running.get(&ended.pid()).and_then(|r| r.killed);
            if killed.is_some() {
                // What it left in its group goes with it, while the number is still its.
                signal_group(ended.pid(), libc::SIGKILL);
            }
            let exit = ended.reap();
            let Some(mut running) = self.running.remove(&ended.pid()) else {
                continue;
            };
            self.show(&mut running, true);
            let end = match (killed, exit.shell_code()) {
                (Some(Killed::Timeout), _) => End::TimedOut,
                (Some(Killed::Stop), _) => End::Cancelled,
                (None, 0) => End::Succeeded,
                (None, exit_code) => End::Failed { exit_code },
            };
            self.end(running.task, Some(exit), end);
        }
    }

    fn enforce_time(&mut self) {
        let now = Instant::now();
        let grace = self.options.grace;
        for (pid, running) in &mut self.running {
            if running.deadline.is_some_and(|at| at <= now) {
                let again = running.killed.is_some();
                signal_group(*pid, if again { libc::SIGKILL } else { libc::SIGTERM });
                running.killed = running.killed.or(Some(Killed::Timeout));
                running.deadline = Some(now + grace);
            }
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.stop();
        }
        let mut running = std::mem::take(&mut self.running);
        for one in running.values_mut() {
            self.show(one, false);
        }
        self.running = running;
    }

    fn show(&mut self, running: &mut Running, end: bool) {
        let name = self.tasks[running.task].name();
        let reporter = &mut self.tools.reporter;
        if reporter.shows_output() {
            running.output.follow(end, |line| reporter.line(name, line));
        }
        if let Some(bytes) = running.output.bound() {
            reporter.say(&format!(
                "{name} writes too much: {bytes} bytes of its output are gone"
            ));
        }
    }

    fn finish(mut self) -> Report {
        self.tools.fifos.settle(SETTLE);
        let flushed = self.tools.reporter.flush();
        self.tools.reporter.finish();
        self.tools.guardian.dismiss();
        let trouble = self
            .trouble
            .or(flushed.err().map(|e| format!("its end cannot be told: {e}")));
        Report {
            records: self.records,
            elapsed: self.began.elapsed(),
            interrupted: self.interrupted,
            trouble,
            dir: self.tools.dir,
        }
    }
}

/// Nothing for a task that has nothing to do.
fn argv(action: &Action, direction: Direction) -> Option<Vec<CString>> {
    let words: Vec<&str> = match action {
        Action::Script { path, .. } => vec![path, direction.as_str()],
        Action::Function { file, name } => {
            vec![
                "/bin/sh",
                "-c",
                ". \"$1\" && \"$2\" \"$3\"",
                "farmhand",
                file,
                name,
                direction.as_str(),
            ]
        }
        Action::Command(Command::Argv(words)) => words.iter().map(String::as_str).collect(),
        Action::Command(Command::Shell(text)) => vec!["/bin/sh", "-c", text],
        Action::Nothing => return None,
    };
    // A NUL cannot come out of a file name or a job file.
    Some(
        words
            .into_iter()
            .map(|w| CString::new(w).unwrap_or_default())
            .collect(),
    )
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

fn random() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    high ^ low.rotate_left(32)
}
