//! The progress descriptor: lines from it, and how often it is read.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use super::poller::{Channel, Poller, Source};
use farmhand_core::stream::MAX_CHECKPOINT;
use farmhand_os::clock::{MILLISECOND, SECOND};

/// As much as a pipe holds, unless its writer made it larger.
const READ_SIZE: usize = 64 << 10;
/// It is read once in this time. What comes meanwhile stays in the pipe, and a writer that fills it waits.
const WINDOW: u64 = 50 * MILLISECOND;
/// A pipe can be made so large without privileges.
const LARGEST: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Progress {
    fd: Option<OwnedFd>,
    lines: Lines,
    read_at: u64,
    pub resume_at: Option<u64>,
}

impl Progress {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self {
            fd: Some(fd),
            lines: Lines::default(),
            read_at: 0,
            resume_at: None,
        }
    }

    pub(crate) fn watch(&self, poller: &Poller, slot: u32) -> io::Result<()> {
        match &self.fd {
            Some(fd) => poller.read(fd, Source::Attempt(slot, Channel::Progress)),
            None => Ok(()),
        }
    }

    /// Reads once, or not before the next window.
    pub(crate) fn ready(&mut self, poller: &Poller, now: u64) -> ProgressLines {
        let next = self.read_at + WINDOW;
        if now >= next {
            self.read_at = now;
            return self.read(poller).unwrap_or_default();
        }
        // Taken out altogether: epoll reports a hang-up whether asked for or not.
        if let (Some(fd), None) = (&self.fd, self.resume_at) {
            poller.forget(fd);
            self.resume_at = Some(next);
        }
        ProgressLines::default()
    }

    pub(crate) fn resume(&mut self, poller: &Poller, slot: u32, now: u64) {
        if self.resume_at.is_none_or(|at| now < at) {
            return;
        }
        self.resume_at = self.watch(poller, slot).is_err().then_some(now + SECOND);
    }

    /// What is still in it, of a tree that has ended; whoever else holds it open is not waited for.
    pub(crate) fn finish(&mut self, poller: &Poller) -> ProgressLines {
        let mut said = ProgressLines::default();
        for _ in 0..=LARGEST / READ_SIZE {
            match self.read(poller) {
                Some(more) => said.then(more),
                None => break,
            }
        }
        if let Some(fd) = self.fd.take() {
            poller.forget(&fd);
        }
        said
    }

    /// None when there is nothing now or for ever.
    fn read(&mut self, poller: &Poller) -> Option<ProgressLines> {
        // Not zeroed: after a fork each page of it that is written to is copied.
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; READ_SIZE];
        match rustix::io::read(self.fd.as_ref()?, &mut buffer) {
            Ok((read, _)) if !read.is_empty() => Some(self.lines.take(read)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => None,
            Ok(_) | Err(_) => {
                poller.forget(self.fd.take()?);
                None
            }
        }
    }
}

#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    /// Longer than a checkpoint may be: the rest of it is not kept.
    over: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgressLines {
    /// A line was complete.
    pub alive: bool,
    /// The last one that is a checkpoint; an empty line is a sign of life only.
    pub checkpoint: Option<String>,
    /// Why a line is none. It would come back to the next attempt as something else than it was.
    pub refused: Option<&'static str>,
}

impl ProgressLines {
    fn then(&mut self, later: ProgressLines) {
        self.alive |= later.alive;
        self.checkpoint = later.checkpoint.or(self.checkpoint.take());
        self.refused = later.refused.or(self.refused);
    }
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) -> ProgressLines {
        let mut said = ProgressLines::default();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = MAX_CHECKPOINT - self.line.len();
            self.over |= text.len() > room;
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() == piece.len() {
                continue;
            }
            said.alive = true;
            match self.complete() {
                Ok(line) if line.trim().is_empty() => {}
                // A flood of short lines must not cost an allocation each.
                Ok(line) => line.clone_into(said.checkpoint.get_or_insert_default()),
                Err(why) => said.refused = Some(why),
            }
            self.line.clear();
            self.over = false;
        }
        said
    }

    fn complete(&self) -> Result<&str, &'static str> {
        if self.over {
            return Err("it is longer than 4095 bytes");
        }
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if line.contains(&0) {
            return Err("it holds a NUL byte");
        }
        std::str::from_utf8(line).map_err(|_| "not UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces_and_the_last_checkpoint_counts() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"on"), ProgressLines::default());
        let said = lines.take(b"e\n\ntwo\r\n\nthr");
        assert_eq!((said.alive, said.checkpoint.as_deref()), (true, Some("two")));
        assert_eq!(lines.take(b"ee\n").checkpoint.as_deref(), Some("three"));
    }

    #[test]
    fn what_would_come_back_changed_is_refused_and_still_a_sign_of_life() {
        let mut lines = Lines::default();
        let longest = vec![b'x'; MAX_CHECKPOINT];
        for wrong in [[&longest[..], b"x"].concat(), b"a\0b".to_vec(), vec![0xff]] {
            lines.take(&wrong);
            let said = lines.take(b"\n");
            assert!(said.alive && said.refused.is_some() && said.checkpoint.is_none());
        }
        lines.take(&longest);
        assert_eq!(
            lines.take(b"\n").checkpoint.map(|c| c.len()),
            Some(MAX_CHECKPOINT)
        );
    }
}
