//! The processes of tasks: how they are started, and how their ends are heard of.

use std::ffi::CString;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use farmhand_core::flow::{Action, Direction, End};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::state::{FlowEngine, Forked, Killed, Running};
use crate::flow::events::{Event, Reporter, micros};
use crate::flow::output::Output;
use crate::flow::preload;
use crate::flow::signals::{Ended, Exit, Limit, signal_group};
use crate::flow::spawn::{self, c_strings};

impl FlowEngine<'_> {
    /// Starts all that may start. Whether something ended at once.
    pub(super) fn start_ready(&mut self) -> bool {
        let mut ended = false;
        while let Some(task) = self.next() {
            ended |= self.start(task);
        }
        ended
    }

    /// A task whose locks on this node are taken with that.
    fn next(&mut self) -> Option<usize> {
        let (tasks, locks) = (self.tasks, &self.tools.locks);
        let mut trouble = None;
        let mut locked_out = None;
        let task = self.course.start(|task| {
            let names = tasks[task].extras.locks.iter();
            let taken = locks.try_take(names.map(String::as_str));
            let admitted = matches!(taken, Ok(Some(_)));
            if matches!(taken, Ok(None)) {
                locked_out.get_or_insert(task);
            }
            trouble = taken.err().or(trouble.take());
            admitted
        });
        if let Some(task) = locked_out.filter(|_| !self.locked_out) {
            let names = tasks[task].extras.locks.join(" ");
            let said = format!("{} waits for locks that others hold: {names}", tasks[task].name());
            self.tools.reporter.say(&said);
        }
        self.locked_out = locked_out.is_some();
        if let Some(error) = trouble {
            self.give_up(format!("locks cannot be taken: {error}"));
        }
        task
    }

    fn start(&mut self, task: usize) -> bool {
        if self.stopping {
            self.end(task, None, End::Cancelled);
            return true;
        }
        let began = self.began;
        self.looks.soon();
        let definition = &self.tasks[task];
        self.record(task).started.get_or_insert_with(|| began.elapsed());
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
        let mut output = match self.output(task) {
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
        variables.extend(definition.extras.env.iter().map(|(n, v)| (n.clone(), v.clone())));
        match self.process(task, &argv, &variables, output.as_ref()) {
            Ok((pid, forked)) => {
                let timeout = definition.extras.timeout.or(self.options.timeout);
                let running = Running {
                    task,
                    forked,
                    output,
                    limit: Limit::new(timeout.map(|t| Instant::now() + t)),
                };
                self.running.insert(pid, running);
                false
            }
            Err(error) => {
                let program = argv[0].to_string_lossy();
                let reason = format!("{program} cannot be executed: {error}");
                // The reason is told in any case.
                if let Some(output) = &mut output {
                    let _ = writeln!(output.file(), "{reason}");
                }
                self.record(task).reason = Some(reason);
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

    /// The file that a task's output goes to, unless it goes elsewhere.
    fn output(&self, task: usize) -> io::Result<Option<Output>> {
        if self.tools.output.is_some() {
            return Ok(None);
        }
        let file = self.tools.dir.log(self.tasks[task].name())?;
        Output::new(file).map(Some)
    }

    /// By the shell that has the library, where that serves, else by itself.
    fn process(
        &mut self,
        task: usize,
        argv: &[CString],
        variables: &[(String, String)],
        output: Option<&Output>,
    ) -> io::Result<(i32, Option<Forked>)> {
        let tools = &mut self.tools;
        if let Some(shell) = &mut tools.preload {
            let definition = &self.tasks[task];
            let log = tools.dir.log_path(definition.name());
            let text = preload::text(&definition.action, self.options.direction, variables, &log);
            if let Some(text) = text {
                let before = shell.pid();
                let run = shell.run(&text, &tools.spawner);
                if let Some(leader) = shell.pid().filter(|pid| Some(*pid) != before) {
                    tools.guardian.tell_session(leader);
                }
                return match run {
                    Ok(pid) => Ok((pid, Some(Forked(watch(pid))))),
                    Err(error) => {
                        // It may have been quicker to end itself than its shell to say that it runs.
                        let ended = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe);
                        let loss = shell.loss();
                        self.lose_shell();
                        Err(if ended { io::Error::other(loss) } else { error })
                    }
                };
            }
        }
        let pid = match (output, &tools.output) {
            (Some(output), _) => tools.spawner.spawn(argv, variables, output.fd(), &[])?,
            (None, Some(passed)) => {
                let (stdout, errors) = (passed.stdout.as_fd(), [(&passed.stderr, 2)]);
                tools.spawner.spawn(argv, variables, stdout, &errors)?
            }
            (None, None) => return Err(ErrorKind::InvalidInput.into()),
        };
        Ok((pid, None))
    }

    pub(super) fn reap(&mut self) {
        while let Some(ended) = Ended::next() {
            let over = |r: &Running| r.limit.over.is_some() || self.tasks[r.task].extras.rounds.is_some();
            if self.running.get(&ended.pid()).is_some_and(over) {
                // What it left in its group goes with it, while the number is still its.
                signal_group(ended.pid(), libc::SIGKILL);
            }
            let exit = ended.reap();
            if self
                .tools
                .preload
                .as_ref()
                .is_some_and(|p| p.pid() == Some(ended.pid()))
            {
                self.lose_shell();
            } else if let Some(running) = self.running.remove(&ended.pid()) {
                self.ended(running, exit);
            }
        }
    }

    /// Ends of what the shell with the library has forked.
    pub(super) fn reap_forked(&mut self) {
        for pid in self.forked_and_ended() {
            let Some(shell) = &mut self.tools.preload else {
                return;
            };
            let Ok(code) = shell.exit_code(pid) else {
                return self.lose_shell();
            };
            if let Some(running) = self.running.remove(&pid) {
                if running.limit.over.is_some() {
                    // Numbers come round after all others only, and while one of its group lives it is taken.
                    signal_group(pid, libc::SIGKILL);
                }
                self.ended(running, Exit::with_code(code));
            }
        }
    }

    fn forked_and_ended(&self) -> Vec<i32> {
        let forked = |(pid, r): (&i32, &'_ Running)| r.forked.as_ref().map(|_| *pid);
        let pids: Vec<i32> = self.running.iter().filter_map(forked).collect();
        let (watched, mut ended): (Vec<i32>, Vec<i32>) = pids
            .into_iter()
            .partition(|pid| self.running[pid].watch().is_some());
        let fds = watched.iter().filter_map(|pid| self.running[pid].watch());
        let mut fds: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if !fds.is_empty() && poll(&mut fds, Some(&now)).is_ok() {
            let over = fds
                .iter()
                .zip(&watched)
                .filter(|(fd, _)| !fd.revents().is_empty());
            ended.extend(over.map(|(_, pid)| *pid));
        }
        ended
    }

    /// With the shell goes what it had forked: nobody would learn how that ended.
    fn lose_shell(&mut self) {
        let Some(shell) = &mut self.tools.preload else {
            return;
        };
        shell.lose();
        let reason = shell.loss();
        let forked = |(pid, r): (&i32, &Running)| r.forked.as_ref().map(|_| *pid);
        let pids: Vec<i32> = self.running.iter().filter_map(forked).collect();
        for pid in pids {
            if let Some(running) = self.running.remove(&pid) {
                self.record(running.task)
                    .reason
                    .get_or_insert_with(|| reason.clone());
                self.ended(running, Exit::with_code(128 + libc::SIGKILL));
            }
        }
    }

    fn ended(&mut self, mut running: Running, exit: Exit) {
        // What it marked, it marked before it ended.
        self.take_notices();
        let name = self.tasks[running.task].name();
        running.show(name, &mut self.tools.reporter, true);
        let end = match (running.limit.over, exit.shell_code()) {
            (Some(Killed::Timeout), _) => End::TimedOut,
            (Some(Killed::Stop), _) => End::Cancelled,
            (Some(Killed::Deadlock), code) => End::Failed {
                exit_code: code.max(1),
            },
            (None, 0) => End::Succeeded,
            (None, exit_code) => End::Failed { exit_code },
        };
        self.end(running.task, Some(exit), end);
    }
}

impl Running {
    /// Whether there is more to show.
    pub(super) fn show(&mut self, name: &str, reporter: &mut Reporter, end: bool) -> bool {
        let output = self.output.as_mut();
        output.is_some_and(|output| output.show(reporter, (name, name), end))
    }

    pub(super) fn watch(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(self.forked.as_ref()?.0.as_ref()?.as_fd())
    }
}

fn watch(pid: i32) -> Option<std::os::fd::OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Nothing for a task that has nothing to do.
fn argv(action: &Action, direction: Direction) -> Option<Vec<CString>> {
    let word = direction.as_str();
    Some(match action {
        Action::Script { path } => c_strings([&**path, word]),
        Action::Function { file, name } => {
            let call = ". \"$1\" && \"$2\" \"$3\"";
            c_strings(["/bin/sh", "-c", call, "farmhand", file, name, word])
        }
        Action::Command(command) => spawn::argv(command),
        Action::Nothing => return None,
    })
}
