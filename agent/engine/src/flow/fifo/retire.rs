//! FIFOs whose names have ended, until it is proven that nobody can be on the way to them.
//!
//! The proof: every path walk that reached the FIFO holds a reference to its directory entry, and the kernel
//! reports IN_DELETE_SELF when the last reference to an unlinked entry is gone. A second link, opened with
//! O_PATH and unlinked, keeps the FIFO itself within reach through another entry.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

use super::directory::Directory;
use super::names::{Notice, aside, pulse, unlink};

const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// Without inotify nothing is ever proven: after this long only stragglers can be left.
const STRAGGLERS_AFTER: Duration = Duration::from_secs(2);
const STRAGGLER_PAUSE: Duration = Duration::from_secs(1);
/// Without inotify marks are looked for as often.
const MARKS_PAUSE: Duration = Duration::from_millis(100);
/// Descriptors spent on proofs at one time.
const MAX_PROOFS: usize = 128;

#[derive(Debug)]
pub(super) struct Retiring {
    watcher: Option<Watcher>,
    pending: Vec<Pending>,
    proofs: usize,
}

#[derive(Debug)]
struct Watcher {
    fd: OwnedFd,
    root: i32,
    marks: i32,
}

#[derive(Debug)]
struct Pending {
    file: OsString,
    since: Instant,
    next: Instant,
    pause: Duration,
    proof: Option<Proof>,
}

/// The FIFO without a name, and the watch that reports the end of its entry.
#[derive(Debug)]
struct Proof {
    fifo: OwnedFd,
    watch: i32,
}

impl Retiring {
    pub(super) fn new(dir: &Directory) -> io::Result<Self> {
        Ok(Self {
            // Machines may have no instances left; then FIFOs are pulsed until the flow ends.
            watcher: Watcher::new(dir).ok(),
            pending: Vec::new(),
            proofs: 0,
        })
    }

    pub(super) fn inotify(&self) -> Option<BorrowedFd<'_>> {
        self.watcher.as_ref().map(|w| w.fd.as_fd())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The FIFO is at `.w/FILE` now. Pulses it, and begins the proof.
    pub(super) fn add(&mut self, dir: &Directory, file: &OsStr, now: Instant) {
        // A pulse that fails is repeated like any other.
        let _ = pulse(dir.work(), file);
        let mut pending = Pending {
            file: file.to_owned(),
            since: now,
            next: now + FIRST_PAUSE,
            pause: FIRST_PAUSE,
            proof: None,
        };
        self.begin_proof(dir, &mut pending);
        self.pending.push(pending);
    }

    pub(super) fn tick(&mut self, dir: &Directory, now: Instant) -> Option<Instant> {
        let mut pending = std::mem::take(&mut self.pending);
        for one in pending.iter_mut().filter(|p| p.next <= now) {
            one.pulse(dir);
            one.pause = (one.pause * 2).min(LONGEST_PAUSE);
            if self.watcher.is_none() && now.duration_since(one.since) > STRAGGLERS_AFTER {
                one.pause = STRAGGLER_PAUSE;
            }
            one.next = now + one.pause;
            if one.proof.is_none() {
                self.begin_proof(dir, one);
            }
        }
        self.pending = pending;
        let look = self.watcher.is_none().then(|| now + MARKS_PAUSE);
        self.pending.iter().map(|p| p.next).chain(look).min()
    }

    fn begin_proof(&mut self, dir: &Directory, pending: &mut Pending) {
        let Some(watcher) = &self.watcher else { return };
        if self.proofs >= MAX_PROOFS {
            return;
        }
        // What fails (no descriptors, no watches) is tried again at the next pulse.
        if let Ok(proof) = watcher.prove(dir, &pending.file) {
            pending.proof = Some(proof);
            self.proofs += 1;
        }
    }

    /// Takes in proofs; returns the rest.
    pub(super) fn notices(&mut self, dir: &Directory) -> Vec<Notice> {
        let Some(watcher) = &self.watcher else {
            return marks(dir);
        };
        let mut notices = Vec::new();
        let mut proven = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&watcher.fd, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = || {
                let name = event
                    .file_name()
                    .map(std::ffi::CStr::to_bytes)
                    .unwrap_or_default();
                OsStr::from_bytes(name).to_owned()
            };
            let flags = event.events();
            if event.wd() == watcher.marks && flags.contains(ReadFlags::MOVED_TO) {
                notices.push(Notice::Mark(name()));
            } else if event.wd() == watcher.root && flags.contains(ReadFlags::DELETE) {
                notices.push(Notice::Damaged(name()));
            } else if flags.contains(ReadFlags::DELETE_SELF) {
                proven.push(event.wd());
            } else if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                notices.extend(marks(dir));
            }
        }
        if !proven.is_empty() {
            let before = self.pending.len();
            self.pending.retain(|p| {
                p.proof
                    .as_ref()
                    .is_none_or(|proof| !proven.contains(&proof.watch))
            });
            self.proofs -= before - self.pending.len();
        }
        notices
    }
}

/// The requests that are there.
fn marks(dir: &Directory) -> Vec<Notice> {
    let Ok(files) = std::fs::read_dir(dir.path().join(".mark")) else {
        return Vec::new();
    };
    let names = files.flatten().map(|file| file.file_name());
    // Others are just being written.
    let whole = names.filter(|name| !name.as_bytes().starts_with(b"."));
    whole.map(Notice::Mark).collect()
}

impl Watcher {
    fn new(dir: &Directory) -> io::Result<Self> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let root = add_watch(&fd, dir.path(), WatchFlags::DELETE | WatchFlags::ONLYDIR)?;
        let marks = add_watch(
            &fd,
            dir.path().join(".mark"),
            WatchFlags::MOVED_TO | WatchFlags::ONLYDIR,
        )?;
        Ok(Self { fd, root, marks })
    }

    fn prove(&self, dir: &Directory, file: &OsStr) -> io::Result<Proof> {
        let second = aside(file, ".2");
        unlink(dir.work(), &second)?;
        linkat(dir.work(), file, dir.work(), &second, AtFlags::empty())?;
        let opened = openat(dir.work(), &second, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        unlink(dir.work(), &second)?;
        let fifo = opened?;
        let path = Path::new("/proc/self/fd")
            .join(dir.work().as_raw_fd().to_string())
            .join(file);
        let watch = add_watch(&self.fd, &path, WatchFlags::DELETE_SELF)?;
        unlink(dir.work(), file)?;
        Ok(Proof { fifo, watch })
    }
}

impl Pending {
    fn pulse(&self, dir: &Directory) {
        let _ = match &self.proof {
            Some(proof) => {
                let path = format!("/proc/self/fd/{}", proof.fifo.as_raw_fd());
                pulse(CWD, OsStr::new(&path))
            }
            None => pulse(dir.work(), &self.file),
        };
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FileType, mknodat};

    use super::super::names::is_fifo;
    use super::*;

    #[test]
    fn the_proof_of_one_name_keeps_the_fifo_of_another_within_reach() {
        let there = tempfile::tempdir().unwrap();
        let dir = Directory::create(&there.path().join("deps")).unwrap();
        let (name, other) = (OsStr::new("a"), OsStr::new("a.2"));
        for file in [name, other] {
            mknodat(dir.work(), file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        }
        let watcher = Watcher::new(&dir).unwrap();
        let proof = watcher.prove(&dir, name).unwrap();
        assert!(!is_fifo(dir.work(), name));
        assert!(is_fifo(dir.work(), other));
        drop(proof);
    }
}
