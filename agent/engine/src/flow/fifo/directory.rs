//! The directory that `$FARMHAND_DEPS` names: private to its user, all on one file system.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, linkat, mkdirat, mknodat, openat, renameat};

use super::names::{Status, aside, unlink};

const PRIVATE: Mode = Mode::RWXU;

/// What most tasks come to. One file with many names, because making a name is cheaper than making a file.
const OK: &str = ".ok";
/// What is in a name's place once it has ended; likewise.
const EMPTY: &str = ".empty";

/// FIFOs and their successors under their names, `.status/NAME`, `.w` for work and `.mark` for requests.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    root: OwnedFd,
    work: OwnedFd,
    status: OwnedFd,
    /// Whether `.w` holds the files with many names.
    shared: bool,
}

impl Directory {
    /// Makes it. The path must not exist.
    pub fn create(path: &Path) -> io::Result<Self> {
        mkdirat(CWD, path, PRIVATE)?;
        let root = open(CWD, path)?;
        for name in [".w", ".status", ".mark"] {
            mkdirat(&root, name, PRIVATE)?;
        }
        Self::with(path, root)
    }

    /// Opens one that an earlier engine made.
    /// Errors: When it is not there, or belongs to, or is open to, somebody else.
    pub fn open(path: &Path) -> io::Result<Self> {
        let root = open(CWD, path)?;
        let stat = rustix::fs::fstat(&root)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
            let what = format!("{} is not private to this user", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        Self::with(path, root)
    }

    fn with(path: &Path, root: OwnedFd) -> io::Result<Self> {
        let mut dir = Self {
            path: path.to_owned(),
            work: open(root.as_fd(), Path::new(".w"))?,
            status: open(root.as_fd(), Path::new(".status"))?,
            root,
            shared: false,
        };
        // Without them each name gets files of its own.
        dir.shared = dir.make_shared().is_ok();
        Ok(dir)
    }

    /// Where it is in the file system.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(super) fn work(&self) -> BorrowedFd<'_> {
        self.work.as_fd()
    }

    pub(super) fn statuses(&self) -> BorrowedFd<'_> {
        self.status.as_fd()
    }

    pub(super) fn has_status(&self, file: &OsStr) -> bool {
        rustix::fs::statat(&self.status, file, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// A further name in `.w` for the empty file.
    pub(super) fn make_empty(&self, file: &OsStr) -> io::Result<()> {
        if self.shared && linkat(&self.work, EMPTY, &self.work, file, AtFlags::empty()).is_ok() {
            return Ok(());
        }
        // On some file systems a file has no more than so many names.
        let mode = Mode::from_raw_mode(0o444);
        Ok(mknodat(&self.work, file, FileType::RegularFile, mode, 0)?)
    }

    fn make_shared(&self) -> io::Result<()> {
        for (file, text) in [(OK, "0 ok\n"), (EMPTY, "")] {
            // What an earlier engine left may be half of it.
            unlink(&self.work, file.as_ref())?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let made = openat(&self.work, file, flags, Mode::from_raw_mode(0o444))?;
            File::from(made).write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// Whole or not at all, and before anybody is woken.
    pub(super) fn write_status(&self, file: &OsStr, status: &Status) -> io::Result<()> {
        if self.shared
            && *status == Status::ok()
            && linkat(&self.work, OK, &self.status, file, AtFlags::empty()).is_ok()
        {
            return Ok(());
        }
        let temporary = aside(file, ".st");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let written = openat(&self.work, &temporary, flags, Mode::from_raw_mode(0o644))
            .map_err(io::Error::from)
            .and_then(|fd| File::from(fd).write_all(format!("{} {}\n", status.code, status.text).as_bytes()))
            .and_then(|()| Ok(renameat(&self.work, &temporary, &self.status, file)?));
        if written.is_err() {
            let _ = unlink(&self.work, &temporary);
        }
        written
    }
}

fn open(at: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::super::names::is_fifo;
    use super::*;

    #[test]
    fn a_status_is_written_while_the_fifo_of_another_name_is_at_work() {
        let there = tempfile::tempdir().unwrap();
        let dir = Directory::create(&there.path().join("deps")).unwrap();
        let (name, other) = (OsStr::new("a"), OsStr::new("a.st"));
        mknodat(&dir.work, other, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        dir.write_status(name, &Status::new(1, "failed")).unwrap();
        assert!(dir.has_status(name));
        assert!(is_fifo(dir.work(), other));
    }
}
