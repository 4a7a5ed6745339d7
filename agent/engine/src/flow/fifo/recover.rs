//! What an engine left behind that did not come to its end.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Instant;

use rustix::fs::Dir;

use super::fifos::Fifos;
use super::names::{Status, is_fifo, unlink};

impl Fifos {
    /// Finishes what was begun, and ends with `engine-lost` every name that nobody will end any more. For
    /// the only one left to do it.
    /// Errors: When the directory cannot be read; names that cannot be completed do not keep others from it.
    pub fn recover(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for file in names(self.directory().work())? {
            if is_fifo(self.directory().work(), &file) {
                self.retiring.add(&self.dir, &file, now);
            } else {
                unlink(self.directory().work(), &file)?;
            }
        }
        let mut failed = None;
        for file in names(self.directory().root())? {
            if !is_fifo(self.directory().root(), &file) {
                continue;
            }
            let done = if self.directory().has_status(&file) {
                self.exchange(&file)
                    .map(|()| self.retiring.add(&self.dir, &file, now))
            } else {
                self.complete_file(&file, &Status::engine_lost(), now)
            };
            failed = done.err().or(failed);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Finishes a mark of this name that somebody was killed at. Whether it has been marked.
    pub(super) fn finish(&mut self, file: &OsStr) -> io::Result<bool> {
        let now = Instant::now();
        if is_fifo(self.directory().work(), file) {
            self.retiring.add(&self.dir, file, now);
        } else {
            unlink(self.directory().work(), file)?;
        }
        if !self.directory().has_status(file) {
            return Ok(false);
        }
        if is_fifo(self.directory().root(), file) {
            self.exchange(file)?;
            self.retiring.add(&self.dir, file, now);
        }
        Ok(true)
    }
}

/// The names in a directory, those of its own machinery excepted.
fn names(at: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(at)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if !name.as_bytes().starts_with(b".") {
            names.push(OsString::from_vec(name.as_bytes().to_vec()));
        }
    }
    Ok(names)
}
