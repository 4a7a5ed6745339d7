//! What an engine has: what it is given, what runs, and what it knows of each task.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use farmhand_core::flow::{Course, Direction, Task};
use farmhand_core::graph::Graph;
use farmhand_os::signal::Signals;

use crate::flow::events::Reporter;
use crate::flow::fifo::Fifos;
use crate::flow::guardian::Guardian;
use crate::flow::output::Output;
use crate::flow::preload::Preload;
use crate::flow::report::Record;
use crate::flow::rundir::RunDir;
use crate::flow::signals::Limit;
use crate::flow::spawn::Spawner;
use crate::flow::waiting_tasks::Asleep;
use crate::locks::Locks;

/// After a start: shorter waits are none that anybody minds.
const FIRST: Duration = Duration::from_secs(1);
/// How a flow is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
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
    pub signals: Signals,
    pub guardian: Guardian,
    /// Of all tasks, shared with other flows of this user on this node.
    pub locks: Locks,
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
pub(super) struct Running {
    pub(super) task: usize,
    /// Not a child of ours, but of the shell with the library.
    pub(super) forked: Option<Forked>,
    /// None where it goes elsewhere.
    pub(super) output: Option<Output>,
    pub(super) limit: Limit<Killed>,
}

/// Readable when it has ended; none when it had before it could be opened.
#[derive(Debug)]
pub(super) struct Forked(pub(super) Option<OwnedFd>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Killed {
    Timeout,
    Stop,
    Deadlock,
}

/// Runs the tasks of a flow, each when those before it have ended.
#[derive(Debug)]
pub struct FlowEngine<'f> {
    pub(super) tasks: &'f [Task],
    pub(super) graph: &'f Graph,
    pub(super) course: Course<'f>,
    pub(super) tools: Tools,
    pub(super) options: Options,
    pub(super) began: Instant,
    pub(super) running: BTreeMap<i32, Running>,
    /// By task, from its start or its end on.
    pub(super) records: Vec<Option<Box<Record>>>,
    /// Nodes, and the names that they end; sorted.
    pub(super) names: Vec<(usize, &'f str)>,
    /// By node: whether its names have been told.
    pub(super) told: Vec<bool>,
    pub(super) stopping: bool,
    /// When the output of what runs is next looked at.
    pub(super) look_at: Instant,
    pub(super) looks: Looks,
    /// Until when what runs may come to its end.
    pub(super) drain_until: Option<Instant>,
    /// A task waits for a lock that another process holds.
    pub(super) locked_out: bool,
    pub(super) interrupted: bool,
    pub(super) trouble: Option<String>,
}

/// When to look for deadlocks, and what was seen.
#[derive(Debug)]
pub(super) struct Looks {
    pub(super) next: Instant,
    pub(super) pause: Duration,
    pub(super) seen: BTreeMap<i32, Asleep>,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self {
            next: Instant::now() + FIRST,
            pause: FIRST,
            seen: BTreeMap::new(),
        }
    }

    /// Something was started: the next look comes soon.
    pub(super) fn soon(&mut self) {
        self.next = self.next.min(Instant::now() + FIRST);
        self.pause = FIRST;
    }
}
