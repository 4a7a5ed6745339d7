//! The names of one flow, and who waits for them.

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, Instant};

use farmhand_os::readable::is_readable;
use rustix::fs::{FileType, Mode, RenameFlags};

use super::directory::Directory;
use super::names::{Notice, Status, file_name};
use super::retire::Retiring;

/// The names of one flow. Used by one thread.
#[derive(Debug)]
pub struct Fifos {
    pub(super) dir: Directory,
    pub(super) retiring: Retiring,
}

impl Fifos {
    /// Takes over an empty directory.
    pub fn new(dir: Directory) -> io::Result<Self> {
        let retiring = Retiring::new(&dir)?;
        Ok(Self { dir, retiring })
    }

    /// Where the FIFOs are.
    pub fn directory(&self) -> &Directory {
        &self.dir
    }

    /// From now on the name can be waited for.
    /// Errors: When the FIFO cannot be made: no space, no rights, the directory is gone.
    pub fn announce(&self, name: &str) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(self.dir.root(), file_name(name), FileType::Fifo, mode, 0)?;
        Ok(())
    }

    /// The name has ended: whoever waits for it is woken, now or while [`Self::tick`] is called.
    /// Errors: When the status cannot be written, or the FIFO is gone. Nobody has been woken then.
    pub fn complete(&mut self, name: &str, status: &Status, now: Instant) -> io::Result<()> {
        self.complete_file(&file_name(name), status, now)
    }

    pub(super) fn complete_file(&mut self, file: &OsStr, status: &Status, now: Instant) -> io::Result<()> {
        self.dir.write_status(file, status)?;
        self.exchange(file)?;
        self.retiring.add(&self.dir, file, now);
        Ok(())
    }

    pub(super) fn exchange(&self, file: &OsStr) -> io::Result<()> {
        self.dir.make_empty(file)?;
        rustix::fs::renameat_with(
            self.dir.work(),
            file,
            self.dir.root(),
            file,
            RenameFlags::EXCHANGE,
        )?;
        Ok(())
    }

    /// Pulses what is due. Returns when to call it again.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.retiring.tick(&self.dir, now)
    }

    /// Readable when [`Self::notices`] has something to look at.
    pub(crate) fn inotify(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.retiring.inotify()
    }

    /// What happened in the directory since the last call; also takes in the proofs.
    pub fn notices(&mut self) -> Vec<Notice> {
        self.retiring.notices(&self.dir)
    }

    /// Whether it is proven that nobody is on the way to a FIFO whose name has ended.
    pub fn settled(&self) -> bool {
        self.retiring.is_empty()
    }

    /// Pulses until it is settled, at most for `bound`; whether it is.
    pub fn settle(&mut self, bound: Duration) -> bool {
        let end = Instant::now() + bound;
        loop {
            let _ = self.notices();
            let now = Instant::now();
            let next = self.tick(now);
            if self.settled() || now >= end {
                return self.settled();
            }
            let pause = next.map_or(end, |n| n.min(end)).saturating_duration_since(now);
            match self.inotify() {
                Some(inotify) => drop(is_readable(inotify, pause)),
                None => std::thread::sleep(pause),
            }
        }
    }
}
