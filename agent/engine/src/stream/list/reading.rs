//! A list of either kind, all of its lines or only some.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use farmhand_core::stream::{Checkpoint, fnv1a};

use super::command::Printed;
use super::file::Growing;
use super::splitter::{Next, Read};
use crate::flow::signals::Exit;
use crate::flow::spawn::Spawner;
use farmhand_core::input::stream::From;

#[derive(Debug)]
pub(crate) struct List {
    source: Source,
    /// The lines that are wanted and have not been read; all when absent.
    only: Option<BTreeSet<u64>>,
    read: u64,
}

#[derive(Debug)]
enum Source {
    File(Growing),
    Command(Printed),
}

impl List {
    /// The list from where a checkpoint ends.
    pub(crate) fn open(
        from: &From,
        only: Option<&[u64]>,
        checkpoint: &Checkpoint,
        spawner: &Spawner,
    ) -> io::Result<Self> {
        let source = match from {
            From::File { path, follow } => {
                Source::File(Growing::new(path, *follow, checkpoint, Instant::now()))
            }
            From::Command(command) => Source::Command(Printed::start(command, checkpoint, spawner)?),
        };
        Ok(Self {
            source,
            only: only.map(|numbers| numbers.iter().copied().collect()),
            read: 0,
        })
    }

    pub(crate) fn next(&mut self, now: Instant) -> Next {
        if self.only.as_ref().is_some_and(BTreeSet::is_empty) {
            // What prints the rest of it is not waited for.
            self.signal(libc::SIGKILL);
            return Next::End;
        }
        let next = match &mut self.source {
            Source::File(file) => file.next(now),
            Source::Command(command) => command.next(),
        };
        let Some(only) = &mut self.only else {
            return next;
        };
        match next {
            Next::Line(read) => {
                self.read += 1;
                match only.remove(&self.read) {
                    true => Next::Line(Read {
                        number: Some(self.read),
                        ..read
                    }),
                    false => Next::Passed,
                }
            }
            Next::End => Next::Broken(format!(
                "the list has {} now; line {} is not there any more",
                match self.read {
                    1 => "1 line".to_owned(),
                    n => format!("{n} lines"),
                },
                only.first().copied().unwrap_or_default()
            )),
            other => other,
        }
    }

    /// Readable when there may be more.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::Command(command) => command.fd(),
            Source::File(_) => None,
        }
    }

    /// When there may be more.
    pub(crate) fn wake(&self) -> Option<Instant> {
        match &self.source {
            Source::File(file) => Some(file.wake()),
            Source::Command(_) => None,
        }
    }

    /// What it waits for, for people.
    pub(crate) fn waits(&self) -> Option<String> {
        match &self.source {
            Source::File(file) => file.waits(),
            Source::Command(_) => None,
        }
    }

    /// Whether this was the process that prints it.
    pub(crate) fn ended(&mut self, pid: i32, exit: &Exit) -> bool {
        match &mut self.source {
            Source::Command(command) => command.ended(pid, exit),
            Source::File(_) => false,
        }
    }

    /// Ends the process that prints it.
    pub(crate) fn signal(&self, signal: i32) {
        if let Source::Command(command) = &self.source {
            command.signal(signal);
        }
    }
}

/// The name of a list in checkpoints.
pub(crate) fn name(from: &From) -> u64 {
    match from {
        From::File { path, .. } => fnv1a(path.as_bytes()),
        From::Command(_) => 0,
    }
}
