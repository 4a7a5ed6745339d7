//! From bytes to lines, each with the place where it ends.

use farmhand_core::stream::{Line, Lines, Tail};

/// Bytes read at once.
pub(super) const CHUNK: usize = 64 << 10;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub line: Line,
    /// Where the next line begins, and the mark of what is before that.
    pub end: u64,
    pub mark: u64,
    /// Its number, where that is not its place in the list.
    pub number: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Line(Read),
    /// A line that is not wanted.
    Passed,
    Later,
    End,
    /// What was read is good, and nothing more will come: a sentence.
    Broken(String),
}

#[derive(Debug)]
pub(super) struct Splitter {
    buffer: Vec<u8>,
    used: usize,
    pub(super) lines: Lines,
    /// The place up to which bytes were used, and what is before it.
    at: u64,
    pub(super) tail: Tail,
}

impl Splitter {
    pub(super) fn new(at: u64, tail: Tail) -> Self {
        Self {
            buffer: Vec::new(),
            used: 0,
            lines: Lines::default(),
            at,
            tail,
        }
    }

    /// For when the last line was asked for in vain.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes);
        self.used = 0;
    }

    pub(super) fn next(&mut self) -> Option<Read> {
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

    pub(super) fn finish(&mut self) -> Option<Read> {
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
