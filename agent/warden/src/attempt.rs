//! One living attempt: its processes' handles, its pipes and its files.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::child::spawn::Started;
use super::child::{InitReport, launch, secrets};
use super::children::Children;
use super::hidden::Hidden;
use super::lifecycle::{Lifecycle, Times};
use super::poller::{Channel, Poller, Source};
use super::progress::{Progress, ProgressLines};
use farmhand_os::clock::{MILLISECOND, SECOND, boottime_ns, wall_ms};
use farmhand_os::process::{self, Stat};
use farmhand_os::reap::{Reaped, Usage};
use farmhand_os::removal;
use farmhand_warden_client::death::census::Member;
use farmhand_warden_client::death::cgroup::Group;
use farmhand_warden_client::output::{OutputWriter, Stream};
use farmhand_warden_client::wire::*;

const READ_SIZE: usize = 64 << 10;
/// Output beyond this per window stays in the pipe and so slows the command down, not its neighbours.
const WINDOW: u64 = 20 * MILLISECOND;
const WINDOW_BYTES: u64 = (64 << 20) / 50;
/// A pipe holds at most so much unless root made it larger; nothing of the tree can add to it any more.
const FINAL_DRAIN: u64 = 2 << 20;
const MAX_START_ERROR: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Attempt {
    pub id: AttemptId,
    pub slot: u32,
    pub request: SpawnRequest,
    pub pid: i32,
    pub lifecycle: Lifecycle,
    group: Option<Group>,
    /// Where the run directory is or would be: its mark in the environment.
    pub run_dir: PathBuf,
    output: OutputWriter,
    pub checkpoint: Option<String>,
    /// Processes that outlived the main one.
    pub leftovers: u32,
    /// Highest seen where the warden watches instead of the kernel.
    watched_rss: u64,
    pub children: Children,
    pub tell_progress_at: Option<u64>,
    last_told_progress: u64,
    started_wall_ms: i64,
    started_ns: u64,
    pipes: Pipes,
    window: (u64, u64),
    resume_at: Option<u64>,
    progress: Progress,
    hidden: Hidden,
    start_error: Vec<u8>,
    status: Vec<u8>,
}

#[derive(Debug)]
struct Pipes {
    stdin: Option<(OwnedFd, usize)>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    start_error: Option<OwnedFd>,
    status: Option<OwnedFd>,
}

impl Attempt {
    pub(crate) fn new(
        slot: u32,
        request: SpawnRequest,
        started: Started,
        group: Option<Group>,
        run_dir: PathBuf,
        output: OutputWriter,
    ) -> Attempt {
        let now = boottime_ns();
        let times = Times {
            timeout_ms: request.timeout_ms,
            grace_ms: request.grace_ms,
            silence_ms: request.progress_timeout_ms,
            hard_end_ns: request.hard_end_ns,
        };
        Attempt {
            id: request.id,
            slot,
            pid: started.pid,
            lifecycle: Lifecycle::new(now, times),
            group,
            run_dir,
            output,
            checkpoint: None,
            leftovers: 0,
            watched_rss: 0,
            children: Children::default(),
            tell_progress_at: None,
            last_told_progress: 0,
            started_wall_ms: wall_ms(),
            started_ns: now,
            pipes: Pipes {
                stdin: started.stdin.map(|fd| (fd, 0)),
                stdout: Some(started.stdout),
                stderr: Some(started.stderr),
                start_error: Some(started.start_error),
                status: started.status,
            },
            window: (now, 0),
            resume_at: None,
            progress: Progress::new(started.progress),
            hidden: Hidden::new(started.secrets),
            start_error: Vec::new(),
            status: Vec::new(),
            request,
        }
    }

    pub(crate) fn watch(&self, poller: &Poller) -> io::Result<()> {
        let source = |channel| Source::Attempt(self.slot, channel);
        if let Some((fd, _)) = &self.pipes.stdin {
            poller.write(fd, source(Channel::Stdin))?;
        }
        let readable = [
            (&self.pipes.stdout, Channel::Stdout),
            (&self.pipes.stderr, Channel::Stderr),
            (&self.pipes.start_error, Channel::StartError),
            (&self.pipes.status, Channel::Status),
        ];
        for (fd, channel) in readable {
            if let Some(fd) = fd {
                poller.read(fd, source(channel))?;
            }
        }
        self.progress.watch(poller, self.slot)
    }

    /// One bounded piece of work on one pipe. Answers whether a line of progress was complete.
    pub(crate) fn ready(&mut self, channel: Channel, poller: &Poller, now: u64) -> bool {
        match channel {
            Channel::Stdin => self.feed(poller),
            Channel::Stdout | Channel::Stderr => {
                self.collect(channel, poller);
                self.throttle(poller, now);
            }
            Channel::Progress => {
                let said = self.progress.ready(poller, now);
                return self.take_progress(said, now);
            }
            Channel::StartError => read_into(
                &mut self.pipes.start_error,
                poller,
                &mut self.start_error,
                MAX_START_ERROR,
            ),
            Channel::Status => read_into(&mut self.pipes.status, poller, &mut self.status, MAX_START_ERROR),
        }
        false
    }

    /// Whether its command is executed, or could not be.
    fn executes(&self) -> bool {
        self.pipes.start_error.is_none()
    }

    fn feed(&mut self, poller: &Poller) {
        let Some((fd, sent)) = &mut self.pipes.stdin else {
            return;
        };
        let all = self.request.stdin.as_deref().unwrap_or_default();
        match rustix::io::write(&*fd, &all[*sent..]) {
            Ok(count) => *sent += count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
            // It closed its stdin: that is its own affair.
            Err(_) => *sent = all.len(),
        }
        if *sent >= all.len() {
            poller.forget(&*fd);
            self.pipes.stdin = None;
            self.request.stdin = None;
        }
    }

    /// Reads once; answers with the number of bytes, 0 when there are none now or for ever.
    fn collect(&mut self, channel: Channel, poller: &Poller) -> u64 {
        let (pipe, stream) = match channel {
            Channel::Stderr => (&mut self.pipes.stderr, Stream::Stderr),
            _ => (&mut self.pipes.stdout, Stream::Stdout),
        };
        let Some(fd) = pipe else { return 0 };
        // Not zeroed: after a fork each page of it that is written to is copied.
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; READ_SIZE];
        match rustix::io::read(&*fd, &mut buffer) {
            Ok((read, _)) if !read.is_empty() => {
                match self.hidden.output(stream, read) {
                    None => self.output.write(stream, wall_ms(), read),
                    Some(Ok(hidden)) => self.output.write(stream, wall_ms(), &hidden),
                    Some(Err(why)) => self.output.note_error(why),
                }
                self.window.1 += read.len() as u64;
                read.len() as u64
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => 0,
            Ok(_) | Err(_) => {
                poller.forget(&*fd);
                *pipe = None;
                0
            }
        }
    }

    fn throttle(&mut self, poller: &Poller, now: u64) {
        if now >= self.window.0 + WINDOW {
            self.window = (now, 0);
        } else if self.window.1 > WINDOW_BYTES && self.resume_at.is_none() {
            // Taken out altogether: epoll reports a hang-up whether asked for or not.
            for fd in [&self.pipes.stdout, &self.pipes.stderr].into_iter().flatten() {
                poller.forget(fd);
            }
            self.resume_at = Some(self.window.0 + WINDOW);
        }
    }

    /// Listens to a throttled command again. What the kernel refuses to watch is tried again: no other attempt is concerned.
    pub(crate) fn resume(&mut self, poller: &Poller, now: u64) {
        if self.resume_at.is_some_and(|at| now >= at) {
            self.resume_at = None;
            self.window = (now, 0);
            for (fd, channel) in [
                (&self.pipes.stdout, Channel::Stdout),
                (&self.pipes.stderr, Channel::Stderr),
            ] {
                let Some(fd) = fd else { continue };
                let watched = poller.read(fd, Source::Attempt(self.slot, channel));
                if watched.is_err_and(|e| e.kind() != io::ErrorKind::AlreadyExists) {
                    self.resume_at = Some(now + SECOND);
                }
            }
        }
        self.progress.resume(poller, self.slot, now);
    }

    /// When to listen again to what is throttled.
    pub(crate) fn resumes(&self) -> [Option<u64>; 2] {
        [self.resume_at, self.progress.resume_at]
    }

    fn take_progress(&mut self, lines: ProgressLines, now: u64) -> bool {
        if let Some(checkpoint) = lines.checkpoint {
            self.checkpoint = self.hidden.text(checkpoint);
        }
        if let Some(why) = lines.refused {
            let line = format!("a checkpoint is refused: {why}\n");
            self.output.write(Stream::Agent, wall_ms(), line.as_bytes());
        }
        if lines.alive && self.tell_progress_at.is_none() {
            self.tell_progress_at = Some(now.max(self.last_told_progress + SECOND));
        }
        lines.alive
    }

    pub(crate) fn told_progress(&mut self, now: u64) {
        self.tell_progress_at = None;
        self.last_told_progress = now;
    }

    pub(crate) fn report(&self) -> AttemptReport {
        AttemptReport {
            id: self.id,
            fence: self.request.fence,
            state: self.lifecycle.state(),
            unkillable: self.lifecycle.unkillable(),
            pid: self.pid,
            started_wall_ms: self.started_wall_ms,
            checkpoint: self.checkpoint.clone(),
            child_kills: self.children.kept().to_vec(),
            extra: self.request.extra.clone(),
            result: None,
        }
    }

    /// The tree is empty: takes what is still in the pipes and closes them, whoever else holds them open.
    pub(crate) fn finish(mut self, reaped: Option<Reaped>, poller: &Poller) -> AttemptReport {
        let now = boottime_ns();
        for channel in [Channel::Stdout, Channel::Stderr] {
            let mut taken = 0;
            while taken < FINAL_DRAIN {
                match self.collect(channel, poller) {
                    0 => break,
                    count => taken += count,
                }
            }
        }
        for (stream, rest) in self.hidden.rest() {
            self.output.write(stream, wall_ms(), &rest);
        }
        if !self.request.secrets.is_empty()
            && let Some(attempt) = self.run_dir.parent()
        {
            let _ = removal::remove(&attempt.join(secrets::DIRECTORY), removal::BRIEFLY);
        }
        let said = self.progress.finish(poller);
        self.take_progress(said, now);
        self.ready(Channel::StartError, poller, now);
        self.ready(Channel::Status, poller, now);
        for fd in [&self.pipes.stdout, &self.pipes.stderr].into_iter().flatten() {
            poller.forget(fd);
        }
        let (ending, usage) = self.ending(reaped);
        let (user_us, sys_us) = self
            .group
            .as_ref()
            .and_then(Group::cpu_us)
            .unwrap_or((usage.user_us, usage.sys_us));
        let killed = self.lifecycle.killed();
        let out_of_memory = self.group.as_ref().is_some_and(Group::out_of_memory);
        let peak = self.group.as_ref().and_then(Group::memory_peak);
        let mut result = AttemptResult {
            ending,
            killed: killed.or(out_of_memory.then_some(KillReason::LimitMemory)),
            started_wall_ms: self.started_wall_ms,
            started_ns: self.started_ns,
            ended_ns: now,
            user_us: user_us.max(usage.user_us),
            sys_us: sys_us.max(usage.sys_us),
            max_rss_bytes: peak.unwrap_or(usage.max_rss_bytes.max(self.watched_rss)),
            leftovers: self.leftovers,
            checkpoint: self.checkpoint.clone(),
            output: OutputStats::default(),
        };
        if let Some(said) = result.left_behind() {
            let line = format!("{said}\n");
            self.output.write(Stream::Agent, wall_ms(), line.as_bytes());
        }
        result.output = self.output.stats().clone();
        AttemptReport {
            state: State::Ended,
            unkillable: false,
            result: Some(result),
            extra: std::mem::take(&mut self.request.extra),
            ..self.report()
        }
    }

    fn ending(&mut self, reaped: Option<Reaped>) -> (Ending, Usage) {
        if let Some(failure) = launch::why_not(&self.start_error, &self.request, &self.run_dir) {
            let usage = reaped.map(|r| r.usage).unwrap_or_default();
            return (Ending::StartFailed(failure), usage);
        }
        let (status, usage) = match (serde_json::from_slice::<InitReport>(&self.status), reaped) {
            (Ok(by_init), _) => {
                self.leftovers = self.leftovers.max(u32::from(by_init.left));
                (by_init.status, by_init.usage)
            }
            (Err(_), Some(reaped)) => (reaped.status, reaped.usage),
            // Nobody else reaps here; were it so, the command did not demonstrably succeed.
            (Err(_), None) => (libc::SIGKILL, Usage::default()),
        };
        let ending = if libc::WIFEXITED(status) {
            Ending::Exited {
                code: libc::WEXITSTATUS(status),
            }
        } else {
            Ending::Signaled {
                signal: libc::WTERMSIG(status),
            }
        };
        (ending, usage)
    }

    pub(crate) fn cgroup(&self) -> Option<&Path> {
        self.group.as_ref().map(Group::path)
    }

    pub(crate) fn member(&self) -> Member<'_> {
        Member {
            id: self.id,
            main: self.pid,
            cgroup: self.cgroup(),
            run_dir: &self.run_dir,
        }
    }

    /// Whether the warden must look at its processes from time to time.
    pub(crate) fn watches(&self) -> bool {
        let limits = self.memory_watched().is_some() || self.processes_watched().is_some();
        self.lifecycle.needs_hard_end() && (limits || !self.request.child_limits.is_empty())
    }

    fn memory_watched(&self) -> Option<u64> {
        let enforced = self.group.as_ref().is_some_and(|g| g.memory_enforced);
        self.request.limits.memory.filter(|_| !enforced)
    }

    fn processes_watched(&self) -> Option<u32> {
        let enforced = self.group.as_ref().is_some_and(|g| g.processes_enforced);
        self.request.limits.processes.filter(|_| !enforced)
    }

    /// Limits that the kernel does not enforce here are watched instead: the sum of the resident memory, and the number of
    /// processes. The whole tree is beyond them.
    pub(crate) fn beyond_limit(&mut self, members: &[Stat]) -> Option<KillReason> {
        let (memory, processes) = (self.memory_watched(), self.processes_watched());
        // Until it executes, it is a copy of the warden, of its size.
        if self.executes() && (memory.is_some() || processes.is_some()) {
            let rss = members.iter().filter_map(|s| process::rss_bytes(s.pid)).sum();
            self.watched_rss = self.watched_rss.max(rss);
            if memory.is_some_and(|most| rss > most) {
                return Some(KillReason::LimitMemory);
            }
        }
        let many = processes.is_some_and(|most| members.len() > most as usize);
        many.then_some(KillReason::LimitProcesses)
    }

    /// Children beyond their limits are ended by name, and what was ended is said in the output.
    pub(crate) fn watch_children(&mut self, members: &[Stat]) {
        if self.request.child_limits.is_empty() {
            return;
        }
        let ended = self.children.end_beyond_limits(self.pid, &self.request, members);
        for kill in ended {
            self.output
                .write(Stream::Agent, kill.wall_ms, format!("{kill}\n").as_bytes());
        }
    }
}

fn read_into(pipe: &mut Option<OwnedFd>, poller: &Poller, into: &mut Vec<u8>, most: usize) {
    let Some(fd) = pipe else { return };
    let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 8 << 10];
    match rustix::io::read(fd.as_fd(), &mut buffer) {
        Ok((read, _)) if !read.is_empty() => {
            into.extend_from_slice(&read[..read.len().min(most.saturating_sub(into.len()))])
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
        Ok(_) | Err(_) => {
            poller.forget(&*fd);
            *pipe = None;
        }
    }
}
