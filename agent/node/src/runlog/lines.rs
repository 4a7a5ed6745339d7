//! From pieces of output to lines, each with the place where it ended.

use std::collections::VecDeque;

use farmhand_core::text::cut_at;
use farmhand_os::clock::wall_ms;
use farmhand_warden_client::output::SentSoFar;
use farmhand_warden_client::{Item, Stream};

/// One line of one stream, without its newline, or a part of one that is too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub stream: Stream,
    /// When its first byte was written, in wall-clock milliseconds.
    pub at_ms: i64,
    pub bytes: Vec<u8>,
    /// It was too long: the next line of this stream is its continuation.
    pub goes_on: bool,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Line {
    /// Of the output that it was: its newline counts.
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64 + u64::from(!self.goes_on)
    }
}

/// A line whose newline has not been written.
struct Half {
    start: u64,
    at_ms: i64,
    bytes: Vec<u8>,
}

/// The lines of an attempt, put together from what its streams gave.
pub struct Lines {
    max: usize,
    read: u64,
    /// When the last of it was written.
    at_ms: i64,
    done: [u64; 3],
    halves: [Option<Half>; 3],
    ready: VecDeque<Line>,
}

const STREAMS: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Agent];

impl Lines {
    /// Longer lines than `max` bytes come in parts.
    pub fn new(max: usize, sent: SentSoFar) -> Self {
        Self {
            max,
            read: sent.resume,
            at_ms: wall_ms(),
            done: sent.streams,
            halves: [None, None, None],
            ready: VecDeque::new(),
        }
    }

    /// Takes in what the reader gave.
    pub fn push(&mut self, item: Item) {
        self.read = item.end();
        match item {
            Item::Chunk {
                position,
                stream,
                at_ms,
                bytes,
            } => {
                self.at_ms = at_ms;
                // Sent by an earlier agent, which still waited for the end of another stream's line.
                let known = self.done[index(stream)].saturating_sub(position);
                let known = usize::try_from(known).map_or(bytes.len(), |n| n.min(bytes.len()));
                self.split(stream, at_ms, position + known as u64, &bytes[known..]);
            }
            Item::Dropped { position, bytes } => {
                self.close();
                if self.done[index(Stream::Agent)] < position + bytes {
                    self.ready.push_back(Line {
                        stream: Stream::Agent,
                        at_ms: self.at_ms,
                        bytes: format!("{bytes} bytes of output are missing here").into_bytes(),
                        goes_on: false,
                        start: position,
                        end: position + bytes,
                    });
                }
            }
        }
    }

    fn split(&mut self, stream: Stream, at_ms: i64, mut at: u64, mut rest: &[u8]) {
        while !rest.is_empty() {
            let half = self.halves[index(stream)].get_or_insert_with(|| Half {
                start: at,
                at_ms,
                bytes: Vec::new(),
            });
            let room = self.max - half.bytes.len();
            let newline = rest.iter().position(|b| *b == b'\n');
            let taken = newline.unwrap_or(rest.len());
            let (taken, skipped) = if taken > room {
                (cut_at(rest, room), 0)
            } else {
                (taken, usize::from(newline.is_some()))
            };
            half.bytes.extend_from_slice(&rest[..taken]);
            rest = &rest[taken + skipped..];
            at += (taken + skipped) as u64;
            if skipped == 1 || !rest.is_empty() {
                self.complete(stream, at, skipped == 0);
            }
        }
    }

    fn complete(&mut self, stream: Stream, end: u64, goes_on: bool) {
        if let Some(half) = self.halves[index(stream)].take() {
            self.ready.push_back(Line {
                stream,
                at_ms: half.at_ms,
                bytes: half.bytes,
                goes_on,
                start: half.start,
                end,
            });
        }
    }

    /// Makes lines of what has no newline.
    pub fn close(&mut self) {
        let end = self.read;
        for stream in STREAMS {
            self.complete(stream, end, false);
        }
    }

    /// The next line to send.
    pub fn front(&self) -> Option<&Line> {
        self.ready.front()
    }

    /// The front line is sent, or given up.
    pub fn pop(&mut self) {
        if let Some(line) = self.ready.pop_front() {
            let done = &mut self.done[index(line.stream)];
            *done = line.end.max(*done);
        }
    }

    /// Forgets what was not sent. Returns how many bytes that is.
    pub fn abandon(&mut self) -> u64 {
        let ready: u64 = self.ready.drain(..).map(|line| line.length()).sum();
        let halves = self.halves.iter_mut().filter_map(Option::take);
        ready + halves.map(|half| half.bytes.len() as u64).sum::<u64>()
    }

    /// Where another agent has to go on.
    pub fn sent(&self) -> SentSoFar {
        let halves = self.halves.iter().flatten().map(|half| half.start);
        let unsent = halves.chain(self.ready.iter().map(|line| line.start)).min();
        SentSoFar {
            resume: unsent.unwrap_or(self.read),
            streams: self.done,
        }
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
        Stream::Agent => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(position: u64, stream: Stream, text: &str) -> Item {
        Item::Chunk {
            position,
            stream,
            at_ms: 7,
            bytes: text.as_bytes().to_vec(),
        }
    }

    fn all(lines: &mut Lines) -> Vec<(Stream, String, bool)> {
        let mut found = Vec::new();
        while let Some(line) = lines.front() {
            let text = String::from_utf8_lossy(&line.bytes).into_owned();
            found.push((line.stream, text, line.goes_on));
            lines.pop();
        }
        found
    }

    fn texts(lines: &mut Lines) -> Vec<String> {
        all(lines).into_iter().map(|(_, text, _)| text).collect()
    }

    #[test]
    fn lines_are_put_together_per_stream_and_empty_ones_are_kept() {
        let mut lines = Lines::new(100, SentSoFar::default());
        lines.push(chunk(0, Stream::Stdout, "on"));
        lines.push(chunk(2, Stream::Stderr, "oh\n"));
        lines.push(chunk(5, Stream::Stdout, "e\n\ntwo"));
        assert_eq!(texts(&mut lines), ["oh", "one", ""]);
        lines.close();
        assert_eq!(texts(&mut lines), ["two"]);
    }

    #[test]
    fn a_long_line_comes_in_parts_that_say_so_and_tear_no_character() {
        let mut lines = Lines::new(8, SentSoFar::default());
        lines.push(chunk(0, Stream::Stdout, "1234567äöü90123\n12345678\nx"));
        lines.close();
        let found = all(&mut lines);
        let parts: Vec<(&str, bool)> = found.iter().map(|(_, t, on)| (t.as_str(), *on)).collect();
        assert_eq!(
            parts,
            [
                ("1234567", true),
                ("äöü90", true),
                ("123", false),
                ("12345678", false),
                ("x", false)
            ]
        );
        let mut lines = Lines::new(8, SentSoFar::default());
        lines.push(Item::Chunk {
            position: 0,
            stream: Stream::Stdout,
            at_ms: 0,
            bytes: vec![0x80; 20],
        });
        lines.close();
        assert_eq!(
            all(&mut lines).len(),
            3,
            "bytes that are no text are cut anywhere"
        );
    }

    #[test]
    fn what_an_earlier_agent_sent_is_not_sent_again() {
        let pieces = || {
            [
                chunk(0, Stream::Stdout, "half a "),
                chunk(7, Stream::Stderr, "one\ntwo\n"),
                chunk(15, Stream::Stdout, "line\nlast\n"),
            ]
        };
        let mut first = Lines::new(100, SentSoFar::default());
        for piece in pieces().into_iter().take(2) {
            first.push(piece);
        }
        assert_eq!(texts(&mut first), ["one", "two"]);
        let sent = first.sent();
        assert_eq!(sent.resume, 0, "the half line is still to come");
        let mut second = Lines::new(100, sent);
        for piece in pieces() {
            second.push(piece);
        }
        assert_eq!(texts(&mut second), ["half a line", "last"]);
        assert_eq!(second.sent().resume, 25);
    }

    #[test]
    fn a_gap_ends_half_lines_and_is_mentioned_once() {
        let mut lines = Lines::new(100, SentSoFar::default());
        lines.push(chunk(0, Stream::Stdout, "before"));
        lines.push(Item::Dropped {
            position: 6,
            bytes: 1_000,
        });
        lines.push(chunk(1_006, Stream::Stdout, "after\n"));
        assert_eq!(
            texts(&mut lines),
            ["before", "1000 bytes of output are missing here", "after"]
        );
        let mut again = Lines::new(100, lines.sent());
        again.push(Item::Dropped {
            position: 6,
            bytes: 1_000,
        });
        assert_eq!(texts(&mut again), Vec::<String>::new());
    }
}
