//! Lists of lines: a file that grows, what a command prints, lines that failed before.

mod command;
mod file;

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use farmhand_core::stream::{Checkpoint, Line, Lines, Tail, fnv1a};

pub use self::command::{Printed, argv};
pub use self::file::Growing;
use super::record::from_hex;
use crate::flow::signals::Exit;
use crate::flow::spawn::Spawner;
use farmhand_core::stream::input::From;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// One line that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    pub line: Line,
    /// Where the next line begins, and the mark of what is before that.
    pub end: u64,
    pub mark: u64,
    /// Its number, where that is not its place in the list.
    pub number: Option<u64>,
}

/// What a list has at the moment.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Line(Read),
    /// Nothing yet.
    Later,
    End,
    /// What was read is good, and nothing more will come: a sentence.
    Broken(String),
}

#[derive(Debug)]
pub enum List {
    File(Growing),
    Command(Printed),
    Replay(VecDeque<(u64, Vec<u8>)>),
}

impl List {
    /// The list from where a checkpoint ends.
    ///
    /// # Errors
    /// When the command that prints it cannot be started.
    pub fn open(from: &From, checkpoint: &Checkpoint, spawner: &Spawner) -> io::Result<Self> {
        Ok(match from {
            From::File { path, follow } => {
                Self::File(Growing::new(path, *follow, checkpoint, Instant::now()))
            }
            From::Command(command) => Self::Command(Printed::start(command, checkpoint, spawner)?),
            From::Replay(lines) => {
                let lines = lines.iter().filter_map(|(n, text)| Some((*n, from_hex(text)?)));
                Self::Replay(lines.collect())
            }
        })
    }

    pub fn next(&mut self, now: Instant) -> Next {
        match self {
            Self::File(file) => file.next(now),
            Self::Command(command) => command.next(),
            Self::Replay(lines) => lines.pop_front().map_or(Next::End, |(number, line)| {
                Next::Line(Read {
                    line: Line::Whole(line),
                    end: 0,
                    mark: 0,
                    number: Some(number),
                })
            }),
        }
    }

    /// Readable when there may be more.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Command(command) => command.fd(),
            _ => None,
        }
    }

    /// When there may be more.
    pub fn wake(&self) -> Option<Instant> {
        match self {
            Self::File(file) => Some(file.wake()),
            _ => None,
        }
    }

    /// What it waits for, for people.
    pub fn waits(&self) -> Option<String> {
        match self {
            Self::File(file) => file.waits(),
            _ => None,
        }
    }

    /// Whether this was the process that prints it.
    pub fn ended(&mut self, pid: i32, exit: &Exit) -> bool {
        match self {
            Self::Command(command) => command.ended(pid, exit),
            _ => false,
        }
    }

    /// Ends the process that prints it.
    pub fn signal(&self, signal: i32) {
        if let Self::Command(command) = self {
            command.signal(signal);
        }
    }
}

/// The name of a list in checkpoints.
pub fn name(from: &From) -> u64 {
    match from {
        From::File { path, .. } => fnv1a(path.as_bytes()),
        From::Command(_) | From::Replay(_) => 0,
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
