//! One warden of a kind per state directory.
//!
//! The lock belongs to an open file description that guard and warden share, so it is free exactly when both
//! are gone. Asking whether it is held does not take it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::paths::{Paths, named};

fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: flock is plain data for which all zeroes is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Takes the lock, or `None` when another guard or warden lives.
pub fn acquire(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| named(e, path))?;
    let lock = whole_file(libc::F_WRLCK);
    // SAFETY: the descriptor is open and the pointer valid for the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
        return Ok(Some(file));
    }
    match io::Error::last_os_error() {
        e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(None),
        e => Err(named(e, path)),
    }
}

/// Whether a guard or warden lives.
pub fn is_held(path: &Path) -> io::Result<bool> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(named(e, path)),
    };
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: the descriptor is open and the pointer valid for the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) } != 0 {
        return Err(named(io::Error::last_os_error(), path));
    }
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Whether a guard or warden of these paths lives, as far as can be told.
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
