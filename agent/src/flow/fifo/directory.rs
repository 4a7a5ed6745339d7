//! The directory that `$FARMHAND_DEPS` names: private to its user, all on one file system.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, renameat};

use super::{Status, unlink};

const PRIVATE: Mode = Mode::RWXU;

/// FIFOs and their successors under their names, `.status/NAME`, `.w` for work and `.mark` for requests.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    root: OwnedFd,
    work: OwnedFd,
    status: OwnedFd,
}

impl Directory {
    /// Makes it. The path must not exist.
    ///
    /// # Errors
    /// When it exists, or cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        mkdirat(CWD, path, PRIVATE)?;
        let root = open(CWD, path)?;
        for name in [".w", ".status", ".mark"] {
            mkdirat(&root, name, PRIVATE)?;
        }
        Self::with(path, root)
    }

    /// Opens one that an earlier engine made.
    ///
    /// # Errors
    /// When it is not there, or belongs to, or is open to, somebody else.
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
        Ok(Self {
            path: path.to_owned(),
            work: open(root.as_fd(), Path::new(".w"))?,
            status: open(root.as_fd(), Path::new(".status"))?,
            root,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(super) fn work(&self) -> BorrowedFd<'_> {
        self.work.as_fd()
    }

    pub(super) fn has_status(&self, file: &OsStr) -> bool {
        rustix::fs::statat(&self.status, file, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whole or not at all, and before anybody is woken.
    pub(super) fn write_status(&self, file: &OsStr, status: &Status) -> io::Result<()> {
        let mut temporary = file.to_owned();
        temporary.push(".st");
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
