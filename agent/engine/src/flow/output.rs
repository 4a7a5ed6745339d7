//! The output of running tasks: one bounded file each, followed while somebody looks.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// A task that writes more loses what it wrote before. Bytes.
const LIMIT: u64 = 64 << 20;
const CHUNK: usize = 64 << 10;

/// The output of a task, in a file that is read as it grows.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    read: u64,
    partial: Vec<u8>,
    /// Bytes thrown away because there were too many.
    dropped: u64,
}

impl Output {
    /// `file` is open for reading and appending.
    ///
    /// # Errors
    /// When its length cannot be told.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let read = file.metadata()?.len();
        Ok(Self {
            file,
            read,
            partial: Vec::new(),
            dropped: 0,
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

    /// Hands every whole line written since the last call to `line`; with `end`, also the last half one.
    pub(crate) fn follow(&mut self, end: bool, mut line: impl FnMut(&[u8])) {
        let grown = self.file.metadata().is_ok_and(|m| m.len() > self.read);
        let mut chunk = vec![0; if grown { CHUNK } else { 0 }];
        while let Ok(count @ 1..) = self.file.read_at(&mut chunk, self.read) {
            self.read += count as u64;
            for byte in &chunk[..count] {
                if *byte == b'\n' {
                    line(&self.partial);
                    self.partial.clear();
                } else if self.partial.len() < CHUNK {
                    self.partial.push(*byte);
                }
            }
        }
        if end && !self.partial.is_empty() {
            line(&self.partial);
            self.partial.clear();
        }
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

    /// Empties a file that grew too long. Returns how many bytes went, the first time.
    pub(crate) fn bound(&mut self) -> Option<u64> {
        let length = self.file.metadata().map(|m| m.len()).unwrap_or(0);
        if length <= LIMIT {
            return None;
        }
        // Writers append, so they go on at the new end.
        if self.file.set_len(0).is_err() {
            return None;
        }
        self.read = 0;
        let first = self.dropped == 0;
        self.dropped += length;
        first.then_some(length)
    }
}
