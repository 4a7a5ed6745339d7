//! One warden of a kind per state directory.
//!
//! The lock belongs to an open file description that reaper and warden share, so it is free exactly when both
//! are gone. Asking whether it is held does not take it. It names the two in the file: a lock that is held by nobody but what
//! hangs in a system call with SIGKILL pending counts as free, and the file is put aside, so that a new reaper never waits
//! for such a process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::paths::{Paths, named};
use farmhand_os::files::if_there;
use farmhand_os::process;

fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: flock is plain data for which all zeroes is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Takes the lock, or `None` when another reaper or warden lives.
pub fn acquire(path: &Path) -> io::Result<Option<File>> {
    let file = open(path)?;
    if take(&file, path)? {
        return Ok(Some(file));
    }
    if !is_abandoned(&file) {
        return Ok(None);
    }
    put_aside(path, &file)?;
    let file = open(path)?;
    Ok(take(&file, path)?.then_some(file))
}

/// Writes down who holds it.
pub fn hold_for(lock: &File, holders: &[i32]) -> io::Result<()> {
    let line = |pid: &i32| process::stat(*pid).map(|stat| format!("{pid} {}\n", stat.start));
    let text: String = holders.iter().filter_map(line).collect();
    lock.set_len(0)?;
    lock.write_all_at(text.as_bytes(), 0)
}

/// Whether those who hold it are named, and one of them hangs while the others are gone.
fn is_abandoned(file: &File) -> bool {
    let mut text = [0; 256];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    let holders = text.lines().filter_map(|line| {
        let (pid, start) = line.split_once(' ')?;
        Some((pid.parse::<i32>().ok()?, start.parse::<u64>().ok()?))
    });
    let there: Vec<i32> = holders
        .filter(|(pid, start)| process::stat(*pid).is_some_and(|s| s.start == *start && !s.is_zombie()))
        .map(|(pid, _)| pid)
        .collect();
    !there.is_empty() && there.into_iter().all(process::is_ending)
}

/// `file` is no longer what `path` names. Under a lock of the directory: somebody else may be doing the same.
fn put_aside(path: &Path, file: &File) -> io::Result<()> {
    let directory = File::open(path.parent().unwrap_or(path))?;
    flock(&directory, FlockOperation::LockExclusive)?;
    if fs::metadata(path)?.ino() == file.metadata()?.ino() {
        fs::rename(path, path.with_extension("stuck")).map_err(|e| named(e, path))?;
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| named(e, path))
}

fn take(file: &File, path: &Path) -> io::Result<bool> {
    let lock = whole_file(libc::F_WRLCK);
    // SAFETY: the descriptor is open and the pointer valid for the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        e => Err(named(e, path)),
    }
}

/// Whether a reaper or warden lives.
pub fn is_held(path: &Path) -> io::Result<bool> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let Some(file) = if_there(opened).map_err(|e| named(e, path))? else {
        return Ok(false);
    };
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: the descriptor is open and the pointer valid for the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) } != 0 {
        return Err(named(io::Error::last_os_error(), path));
    }
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short && !is_abandoned(&file))
}

/// Whether a reaper or warden of these paths lives, as far as can be told.
pub fn is_alive(paths: &Paths) -> bool {
    is_held(&paths.lock()).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    #[test]
    fn asking_does_not_take_the_lock() {
        let path = std::env::temp_dir().join(format!("farmhand-lock-{}", std::process::id()));
        assert!(!super::is_held(&path).unwrap());
        let held = super::acquire(&path).unwrap().unwrap();
        assert!(super::is_held(&path).unwrap());
        assert!(super::acquire(&path).unwrap().is_none());
        drop(held);
        assert!(!super::is_held(&path).unwrap());
        assert!(super::acquire(&path).unwrap().is_some());
        std::fs::remove_file(&path).unwrap();
    }
}
