//! A name: its file, how it ended, and the small steps that all of this directory share.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;

use farmhand_core::flow::encode_name;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;

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

/// Encoded; see `encode_name`.
pub fn file_name(name: &str) -> OsString {
    OsString::from_vec(encode_name(name.as_bytes()))
}

/// Wakes everybody who came to a FIFO. `/proc` gives a path to a FIFO that has no name any more.
pub(super) fn pulse(at: impl AsFd, path: &OsStr) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    drop(openat(at, path, flags, Mode::empty())?);
    Ok(())
}

/// For something on its way, in `.w`: a file of no name, because names have no leading dot.
pub(super) fn aside(file: &OsStr, what: &str) -> OsString {
    let mut aside = OsString::from(".");
    aside.push(file);
    aside.push(what);
    aside
}

pub(super) fn unlink(at: impl AsFd, file: &OsStr) -> io::Result<()> {
    match unlinkat(at, file, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => Ok(other?),
    }
}

pub(super) fn is_fifo(at: BorrowedFd<'_>, file: &OsStr) -> bool {
    statat(at, file, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}
