//! The processes that handle lines: how they are started, and what becomes of a line when its process ended.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use farmhand_core::definition::{Filling, fill};
use farmhand_core::stream::ItemEnd;
use farmhand_os::readable::is_readable;
use jiff::Timestamp;
use rustix::pipe::{PipeFlags, pipe_with};

use super::state::{Item, Killed, StreamEngine, Waiting, Worker};
use crate::flow::output::Output;
use crate::flow::signals::{Ended, Exit, Limit, signal_group};
use crate::flow::spawn::argv;
use crate::stream::record::MAX_OUTPUT;
use farmhand_core::stream::PROGRESS_FD;

/// An attempt that gives up so many lines ends: the fault is hardly theirs.
const MAX_GIVEN_UP: u64 = 10_000;
/// After the first failure of a line; doubled with each further one.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// For the signal that ended a process and is still on its way to us.
const SETTLE: Duration = Duration::from_millis(100);

impl StreamEngine {
    pub(super) fn start(&mut self, item: Item, now: Instant) {
        match self.process(&item) {
            Ok((pid, slot, output, progress)) => {
                let silence = self.handed.progress_timeout_ms.map(Duration::from_millis);
                let worker = Worker {
                    item,
                    slot,
                    output,
                    progress: Some(progress),
                    began: Timestamp::now(),
                    limit: Limit::new(silence.map(|silence| now + silence)),
                };
                self.workers.insert(pid, worker);
            }
            Err(error) if is_shortage(&error) => {
                // Not the line's fault.
                self.teller
                    .say(&format!("line {} has to wait: {error}", item.number));
                self.waiting.push(Waiting {
                    item,
                    at: now + PAUSE,
                });
            }
            Err(error) => self.leave(format!("line {} cannot be handled: {error}", item.number)),
        }
    }

    fn process(&self, item: &Item) -> io::Result<(i32, usize, Output, OwnedFd)> {
        let slot = (0..)
            .find(|slot| self.workers.values().all(|w| w.slot != *slot))
            .unwrap_or(0);
        let output = self.place.output(slot).and_then(Output::new)?;
        let stdin = rustix::fs::memfd_create("farmhand-line", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut stdin = File::from(stdin);
        stdin.write_all(&item.line)?;
        stdin.write_all(b"\n")?;
        stdin.rewind()?;
        let stdin = OwnedFd::from(stdin);
        let (progress, write) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&progress, true)?;
        let variables = [
            ("FARMHAND_ITEM".to_owned(), item.number.to_string()),
            ("FARMHAND_SLOT".to_owned(), (slot + 1).to_string()),
        ];
        let filling = Filling {
            slot: u32::try_from(slot + 1).unwrap_or(0),
            ..self.handed.filling.clone()
        };
        let command = fill(&self.handed.command, &filling).map_err(io::Error::other)?;
        let argv = argv(&command);
        let descriptors = [(&stdin, 0), (&write, PROGRESS_FD)];
        let pid = self
            .spawner
            .spawn_with(&argv, &variables, output.fd(), &descriptors);
        let pid = pid.map_err(|e| match (is_shortage(&e), argv.first()) {
            (false, Some(program)) => {
                io::Error::other(format!("{} cannot be executed: {e}", program.to_string_lossy()))
            }
            _ => e,
        })?;
        Ok((pid, slot, output, progress))
    }

    pub(super) fn reap(&mut self) {
        let mut ended = Vec::new();
        while let Some(child) = Ended::next() {
            if self.workers.contains_key(&child.pid()) {
                // What it left in its group goes with it, while the number is still its.
                signal_group(child.pid(), libc::SIGKILL);
            }
            let exit = child.reap();
            if !self.list.ended(child.pid(), &exit) {
                ended.extend(self.workers.remove(&child.pid()).map(|worker| (worker, exit)));
            }
        }
        // Who ends the whole stream signals everything of it: that is no failure of a line.
        let terminated = |exit: &Exit| exit.signal == Some(libc::SIGTERM);
        if ended
            .iter()
            .any(|(worker, exit)| worker.limit.over.is_none() && terminated(exit))
        {
            is_readable(self.signals.fd(), SETTLE);
        }
        self.look_at_signals();
        for (worker, exit) in ended {
            self.judge(worker, exit);
        }
    }

    /// Signs of life.
    pub(super) fn hear(&mut self) {
        let silence = self.handed.progress_timeout_ms.map(Duration::from_millis);
        let mut chunk = [0; 4096];
        for worker in self.workers.values_mut() {
            let Some(fd) = &worker.progress else { continue };
            match rustix::io::read(fd.as_fd(), &mut chunk) {
                Ok(0) => worker.progress = None,
                Ok(_) if worker.limit.over.is_none() => {
                    worker.limit.at = silence.map(|silence| Instant::now() + silence);
                }
                _ => {}
            }
        }
    }

    fn judge(&mut self, mut worker: Worker, exit: Exit) {
        self.teller.show(worker.item.number, &mut worker.output, true);
        let Item { index, number, .. } = worker.item;
        let by_itself = worker.limit.over.is_none();
        let why = match (worker.limit.over, exit.signal, exit.shell_code()) {
            // It was done in time all the same.
            (None | Some(Killed::Stop), None, 0) => {
                if self.handed.only.is_none() || self.write_down(&worker, exit, "succeeded", None) {
                    self.course.succeeded(index);
                }
                return;
            }
            // Another attempt begins with it anew.
            (Some(Killed::Stop), ..) => return,
            (None, ..) if self.stopping => return,
            (Some(Killed::Silence), ..) => "made no progress for too long".to_owned(),
            (None, Some(signal), _) => format!("ended by signal {signal}"),
            (None, None, code) => format!("exit code {code}"),
        };
        let failures = self.course.try_failed(index);
        let most = self.handed.max_item_failures;
        if failures < most {
            let pause = (PAUSE * 2u32.saturating_pow(failures - 1)).min(LONGEST_PAUSE);
            let shown = farmhand_core::document::duration_text(pause);
            self.teller.say(&format!(
                "line {number}: {why}; failure {failures} of {most}, again in {shown}"
            ));
            let at = Instant::now() + pause;
            return self.waiting.push(Waiting {
                item: worker.item,
                at,
            });
        }
        self.teller.say(&format!(
            "line {number}: {why}; given up after {failures} failures"
        ));
        let outcome = if by_itself { "failed" } else { "timed_out" };
        if self.write_down(&worker, exit, outcome, Some((failures, why))) {
            self.give_up(index);
        }
    }

    /// No command could be given such a line.
    pub(super) fn refuse(&mut self, item: &Item, why: &str) {
        self.teller.say(&format!("line {}: {why}", item.number));
        let end = ItemEnd {
            item: i64::try_from(item.number).unwrap_or(i64::MAX),
            outcome: "refused".to_owned(),
            failures: 0,
            line: hex::encode(&item.line),
            started_at: None,
            ended_at: Timestamp::now(),
            exit_code: None,
            signal: None,
            reason: Some(why.to_owned()),
            output: None,
        };
        if self.record(&end) {
            self.give_up(item.index);
        }
    }

    fn write_down(&mut self, worker: &Worker, exit: Exit, outcome: &str, why: Option<(u32, String)>) -> bool {
        let (failures, reason) = why.map_or((0, None), |(failures, why)| (failures, Some(why)));
        let end = ItemEnd {
            item: i64::try_from(worker.item.number).unwrap_or(i64::MAX),
            outcome: outcome.to_owned(),
            failures: i32::try_from(failures).unwrap_or(i32::MAX),
            line: hex::encode(&worker.item.line),
            started_at: Some(worker.began),
            ended_at: Timestamp::now(),
            exit_code: exit.code,
            signal: exit.signal,
            reason,
            output: worker.output.last(MAX_OUTPUT).map(hex::encode),
        };
        self.record(&end)
    }

    /// Before the checkpoint passes the line: one whose end is not written down is not passed.
    fn record(&mut self, end: &ItemEnd) -> bool {
        let written = self.place.write(end);
        if let Err(error) = &written {
            self.leave(format!(
                "the end of line {} cannot be written down: {error}",
                end.item
            ));
        }
        written.is_ok()
    }

    fn give_up(&mut self, index: u64) {
        self.course.failed(index);
        self.given_up += 1;
        if self.given_up == MAX_GIVEN_UP {
            self.leave(format!(
                "{MAX_GIVEN_UP} lines were given up, so the fault is hardly theirs"
            ));
        }
    }
}

/// Of processes, memory or descriptors: it may pass.
fn is_shortage(error: &io::Error) -> bool {
    let codes = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
    error.raw_os_error().is_some_and(|code| codes.contains(&code)) || error.kind() == ErrorKind::OutOfMemory
}
