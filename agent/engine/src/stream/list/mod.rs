//! Lists of lines: a file that grows, what a command prints. Of either, all lines or only some.

mod command;
mod file;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use farmhand_core::stream::{Checkpoint, Line, Lines, Tail, fnv1a};

pub(super) use self::command::{Printed, argv};
pub(super) use self::file::Growing;
use crate::flow::signals::Exit;
use crate::flow::spawn::Spawner;
use farmhand_core::input::stream::From;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// One line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub line: Line,
    /// Where the next line begins, and the mark of what is before that.
    pub end: u64,
    pub mark: u64,
    /// Its number, where that is not its place in the list.
    pub number: Option<u64>,
}

/// What a list has at the moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Line(Read),
    /// A line that is not wanted.
    Passed,
    /// Nothing yet.
    Later,
    End,
    /// What was read is good, and nothing more will come: a sentence.
    Broken(String),
}

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
    ///
    /// # Errors
    /// When the command that prints it cannot be started.
    pub(super) fn open(
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

    pub(super) fn next(&mut self, now: Instant) -> Next {
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
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::Command(command) => command.fd(),
            Source::File(_) => None,
        }
    }

    /// When there may be more.
    pub(super) fn wake(&self) -> Option<Instant> {
        match &self.source {
            Source::File(file) => Some(file.wake()),
            Source::Command(_) => None,
        }
    }

    /// What it waits for, for people.
    pub(super) fn waits(&self) -> Option<String> {
        match &self.source {
            Source::File(file) => file.waits(),
            Source::Command(_) => None,
        }
    }

    /// Whether this was the process that prints it.
    pub(super) fn ended(&mut self, pid: i32, exit: &Exit) -> bool {
        match &mut self.source {
            Source::Command(command) => command.ended(pid, exit),
            Source::File(_) => false,
        }
    }

    /// Ends the process that prints it.
    pub(super) fn signal(&self, signal: i32) {
        if let Source::Command(command) = &self.source {
            command.signal(signal);
        }
    }
}

/// The name of a list in checkpoints.
pub(super) fn name(from: &From) -> u64 {
    match from {
        From::File { path, .. } => fnv1a(path.as_bytes()),
        From::Command(_) => 0,
    }
}

/// Bytes on their way to lines.
#[derive(Debug)]
struct Splitter {
    buffer: Vec<u8>,
    used: usize,
    lines: Lines,
    /// The place up to which bytes were used, and what is before it.
    at: u64,
    tail: Tail,
}

impl Splitter {
    fn new(at: u64, tail: Tail) -> Self {
        Self {
            buffer: Vec::new(),
            used: 0,
            lines: Lines::default(),
            at,
            tail,
        }
    }

    /// For when the last line was asked for in vain.
    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes);
        self.used = 0;
    }

    fn next(&mut self) -> Option<Read> {
        let rest = &self.buffer[self.used..];
        if rest.is_empty() {
            return None;
        }
        let (taken, line) = self.lines.take(rest);
        self.tail.push(&rest[..taken]);
        self.used += taken;
        self.at += taken as u64;
        line.map(|line| self.read(line))
    }

    fn finish(&mut self) -> Option<Read> {
        self.lines.finish().map(|line| self.read(line))
    }

    fn read(&self, line: Line) -> Read {
        Read {
            line,
            end: self.at,
            mark: self.tail.mark(),
            number: None,
        }
    }
}
