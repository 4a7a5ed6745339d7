//! The output of running tasks: one bounded file each, followed while somebody looks.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use farmhand_core::text::cut_at;

use super::events::Reporter;

/// A task that writes more loses what it wrote before. Bytes.
const LIMIT: u64 = 64 << 20;
/// Longer lines are shown in parts. Bytes.
const LINE_MAX: usize = 64 << 10;
/// Read in one go at most: a bound on how long everything else waits. Bytes.
const LOOK_MAX: u64 = 1 << 20;

/// The output of a task, in a file that is read as it grows.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    read: u64,
    partial: Vec<u8>,
    emptied: bool,
    /// Bytes that were thrown away and not shown, and how many of them were told of.
    lost: u64,
    told: Option<u64>,
}

impl Output {
    /// `file` is open for reading and appending.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let read = file.metadata()?.len();
        Ok(Self {
            file,
            read,
            partial: Vec::new(),
            emptied: false,
            lost: 0,
            told: None,
        })
    }

    /// For a command's stdout and stderr.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The file itself, for what the engine adds to it.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Shows what was written since the last call, up to [`LOOK_MAX`], and keeps the file within its bound; with `end`, all that
    /// was written until now. Each line has `name` before it; messages are about `who`. Whether there is more to show.
    pub(crate) fn show(&mut self, log: &mut Reporter, (name, who): (&str, &str), end: bool) -> bool {
        let (shows, length, lost) = (log.shows_output(), self.length(), self.lost);
        let mut more = shows;
        if shows && end && self.skip(length) {
            self.end_line(|line| log.line(name, line));
        }
        while more {
            more = self.follow(length, |line| log.line(name, line));
            log.hand_on();
            if !end {
                break;
            }
        }
        self.bound(shows);
        if end || self.lost > lost {
            self.end_line(|line| log.line(name, line));
        }
        if let Some(news) = self.news(end) {
            log.say(&format!("{who} writes too much: {news}"));
        }
        more
    }

    fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |m| m.len())
    }

    /// Hands every whole line before `length` to `line`, in one go. Whether there is more.
    fn follow(&mut self, length: u64, mut line: impl FnMut(&[u8])) -> bool {
        let until = length.min(self.read + LOOK_MAX);
        let mut bytes = vec![0; usize::try_from(until.saturating_sub(self.read)).unwrap_or(0)];
        let Ok(count @ 1..) = self.file.read_at(&mut bytes, self.read) else {
            return false;
        };
        self.read += count as u64;
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let room = LINE_MAX + 1 - self.partial.len();
            // Reading from memory cannot fail.
            let _ = rest
                .by_ref()
                .take(room as u64)
                .read_until(b'\n', &mut self.partial);
            if self.partial.last() == Some(&b'\n') {
                line(&self.partial[..self.partial.len() - 1]);
                self.partial.clear();
            } else if self.partial.len() > LINE_MAX {
                let cut = cut_at(&self.partial, LINE_MAX);
                line(&self.partial[..cut]);
                self.partial.drain(..cut);
            }
        }
        self.read < length
    }

    /// The last bytes of what was written, up to `most`; none when nothing can be read.
    pub(crate) fn last(&self, most: usize) -> Option<Vec<u8>> {
        let length = self.file.metadata().ok()?.len();
        let start = length.saturating_sub(most as u64);
        let mut bytes = vec![0; usize::try_from(length - start).unwrap_or(most)];
        let count = self.file.read_at(&mut bytes, start).ok()?;
        bytes.truncate(count);
        Some(bytes)
    }

    /// What was written has no newline behind it, or not all of it is there.
    fn end_line(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            line(&self.partial);
            self.partial.clear();
        }
    }

    /// Leaves out what is too much to be shown at the end. Whether there is such.
    fn skip(&mut self, length: u64) -> bool {
        let skipped = length.saturating_sub(self.read + LIMIT);
        self.read += skipped;
        self.lost += skipped;
        skipped > 0
    }

    /// Empties a file that grew too long.
    fn bound(&mut self, shown: bool) {
        let length = self.length();
        // Writers append, so they go on at the new end.
        if length <= LIMIT || self.file.set_len(0).is_err() {
            return;
        }
        self.emptied = true;
        self.lost += if shown {
            length.saturating_sub(self.read)
        } else {
            length
        };
        self.read = 0;
    }

    /// What is to be told of it: that the file was emptied, and then each time that twice as much is lost, or it is the end.
    fn news(&mut self, end: bool) -> Option<String> {
        let due = match self.told {
            None => self.emptied || self.lost > 0,
            Some(told) => self.lost > told && (end || self.lost >= 2 * told),
        };
        if !due {
            return None;
        }
        self.told = Some(self.lost);
        Some(match self.lost {
            0 => "its file was emptied, and what was in it is above".to_owned(),
            lost => format!("{lost} bytes of its output are gone"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn output() -> Output {
        let file = tempfile::Builder::new().append(true).tempfile().unwrap();
        Output::new(file.into_file()).unwrap()
    }

    fn write(output: &mut Output, bytes: u64) {
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        for _ in 0..bytes / 1024 {
            output.file.write_all(&line).unwrap();
        }
    }

    /// Reads all that there is, and counts it.
    fn shown(output: &mut Output) -> u64 {
        let (length, mut bytes) = (output.length(), 0);
        while output.follow(length, |line| bytes += line.len() as u64 + 1) {}
        bytes
    }

    #[test]
    fn one_go_ends_though_there_is_more() {
        let mut output = output();
        write(&mut output, 3 << 20);
        let (length, mut lines) = (output.length(), 0);
        assert!(output.follow(length, |_| lines += 1));
        assert_eq!(lines, 1 << 10);
        assert!(output.follow(length, |_| lines += 1));
        assert!(!output.follow(length, |_| lines += 1));
        assert_eq!(lines, 3 << 10);
    }

    #[test]
    fn nothing_is_said_to_be_gone_that_was_shown() {
        let mut output = output();
        for _ in 0..3 {
            write(&mut output, LIMIT);
            assert_eq!(shown(&mut output), LIMIT);
            write(&mut output, 1 << 20);
            assert_eq!(shown(&mut output), 1 << 20);
            output.bound(true);
            assert_eq!((output.length(), output.lost), (0, 0));
        }
        let news = output.news(true).unwrap();
        assert!(news.contains("emptied") && !news.contains("gone"), "{news}");
        assert_eq!(output.news(true), None);
    }

    #[test]
    fn what_was_not_shown_is_counted_and_told_as_often_as_it_doubles() {
        let mut output = output();
        let mut told = Vec::new();
        for _ in 0..5 {
            write(&mut output, LIMIT + (3 << 20));
            let length = output.length();
            output.follow(length, |_| {});
            output.bound(true);
            told.extend(output.news(false));
        }
        told.extend(output.news(true));
        let each = LIMIT + (2 << 20);
        let lost = [1, 2, 4, 5].map(|n| format!("{} bytes of its output are gone", n * each));
        assert_eq!(told, lost);
    }

    #[test]
    fn of_too_much_at_the_end_the_last_part_is_shown() {
        let mut output = output();
        write(&mut output, LIMIT + (5 << 20));
        let length = output.length();
        assert!(output.skip(length));
        assert_eq!((shown(&mut output), output.lost), (LIMIT, 5 << 20));
    }
}
