//! Waking waiters through FIFO files without losing one.
//!
//! While `NAME` is a FIFO its task has not ended, and whoever opens it for reading sleeps in the kernel. On
//! completion the status is written, the FIFO is exchanged for an empty file, and whoever still came to the
//! FIFO is woken by opening it for reading and writing ("a pulse"), again and again until the kernel proves
//! that nobody can be on the way to it any more. `docs/internals/fifo.md` has the reasons.

pub mod alone;
mod directory;
mod recover;
mod retire;
mod wait;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use farmhand_core::flow::encode_name;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};

pub use directory::Directory;
use retire::Retiring;
pub use wait::{WaitError, status, wait};

/// How a name ended: the first word of its status file is for `return` in a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// 0 when the name's task succeeded.
    pub code: u8,
    /// One word, and perhaps more after it.
    pub text: String,
}

impl Status {
    /// A status of this code; its text becomes one line.
    pub fn new(code: u8, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into().replace('\n', " "),
        }
    }

    /// The status of a success.
    pub fn ok() -> Self {
        Self::new(0, "ok")
    }

    /// What waiters learn when the engine died.
    pub fn engine_lost() -> Self {
        Self::new(125, "engine-lost")
    }
}

/// Something that happened in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Somebody asks for a name to be marked; the file in `.mark`.
    Mark(OsString),
    /// Somebody deleted something here: waiters may be out of reach.
    Damaged(OsString),
}

/// The names of one flow. Used by one thread.
#[derive(Debug)]
pub struct Fifos {
    dir: Directory,
    retiring: Retiring,
}

impl Fifos {
    /// Takes over an empty directory.
    ///
    /// # Errors
    /// When the kernel has no descriptors left.
    pub fn new(dir: Directory) -> io::Result<Self> {
        let retiring = Retiring::new(&dir)?;
        Ok(Self { dir, retiring })
    }

    /// Where the FIFOs are.
    pub fn directory(&self) -> &Directory {
        &self.dir
    }

    /// From now on the name can be waited for.
    ///
    /// # Errors
    /// When the FIFO cannot be made: no space, no rights, the directory is gone.
    pub fn announce(&self, name: &str) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(self.dir.root(), file_name(name), FileType::Fifo, mode, 0)?;
        Ok(())
    }

    /// The name has ended: whoever waits for it is woken, now or while [`Self::tick`] is called.
    ///
    /// # Errors
    /// When the status cannot be written, or the FIFO is gone. Nobody has been woken then.
    pub fn complete(&mut self, name: &str, status: &Status, now: Instant) -> io::Result<()> {
        self.complete_file(&file_name(name), status, now)
    }

    fn complete_file(&mut self, file: &OsStr, status: &Status, now: Instant) -> io::Result<()> {
        self.dir.write_status(file, status)?;
        self.exchange(file)?;
        self.retiring.add(&self.dir, file, now);
        Ok(())
    }

    fn exchange(&self, file: &OsStr) -> io::Result<()> {
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
            self.pause(next.map_or(end, |n| n.min(end)).saturating_duration_since(now));
        }
    }

    /// Sleeps until a notice or the end of `time`.
    fn pause(&self, time: Duration) {
        let Some(inotify) = self.inotify() else {
            std::thread::sleep(time);
            return;
        };
        let mut poll = [rustix::event::PollFd::from_borrowed_fd(
            inotify,
            rustix::event::PollFlags::IN,
        )];
        let time: Option<rustix::event::Timespec> = time.try_into().ok();
        // An interrupted sleep is a short one.
        let _ = rustix::event::poll(&mut poll, time.as_ref());
    }
}

/// Encoded; see `encode_name`.
pub fn file_name(name: &str) -> OsString {
    OsString::from_vec(encode_name(name.as_bytes()))
}

/// Wakes everybody who came to a FIFO. `/proc` gives a path to a FIFO that has no name any more.
fn pulse(at: impl std::os::fd::AsFd, path: &OsStr) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    drop(rustix::fs::openat(at, path, flags, Mode::empty())?);
    Ok(())
}

/// For something on its way, in `.w`: a file of no name, because names have no leading dot.
fn aside(file: &OsStr, what: &str) -> OsString {
    let mut aside = OsString::from(".");
    aside.push(file);
    aside.push(what);
    aside
}

fn unlink(at: impl std::os::fd::AsFd, file: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(at, file, AtFlags::empty()) {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        other => Ok(other?),
    }
}
