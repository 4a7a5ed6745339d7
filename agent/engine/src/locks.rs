//! Named locks of one user on one node: a file for each place, and the kernel's lock on it.
//!
//! A lock belongs to the open file, so it is gone when the last process that has that file is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use farmhand_core::flow::encode_name;
use farmhand_os::files::if_missing;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Between two looks at locks that others hold.
pub const LOOK: Duration = Duration::from_millis(50);

/// Names another directory, for users that share their locks.
pub const VARIABLE: &str = "FARMHAND_LOCK_DIR";

/// Where directories of locks are made: what is there on every boot, and the same for a login and for cron. The second only where
/// the first's mode keeps a user out.
const PLACES: [&str; 2] = ["/run/lock", "/tmp"];

/// A lock whose file cannot be opened or locked.
#[derive(Debug, thiserror::Error)]
#[error("the locks in {} cannot be used: {source}", path.display())]
pub struct LockError {
    path: PathBuf,
    source: io::Error,
}

/// Locks that may be taken, each open.
#[derive(Debug, Default)]
pub struct Locks(BTreeMap<String, Vec<File>>);

impl Locks {
    /// Each name with its number of places.
    /// Errors: When there is no directory, or a file of it cannot be opened.
    pub fn open<'a>(names: impl IntoIterator<Item = (&'a str, u32)>) -> Result<Self, LockError> {
        let mut names = names.into_iter().peekable();
        if names.peek().is_none() {
            return Ok(Self::default());
        }
        let dir = directory()?;
        let mut locks = BTreeMap::new();
        for (name, places) in names {
            let files = (1..=places).map(|place| file(&dir, name, place)).collect();
            let files: io::Result<Vec<File>> = files;
            let files = files.map_err(|source| LockError {
                path: dir.clone(),
                source,
            })?;
            locks.insert(name.to_owned(), files);
        }
        Ok(Self(locks))
    }

    /// All of these names or none: nobody waits while it holds something. The place that each got, from 1.
    pub fn try_take<'a>(
        &self,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> io::Result<Option<Vec<usize>>> {
        let mut taken: Vec<(&File, usize)> = Vec::new();
        for name in names {
            let files = self.0.get(name).map_or(&[][..], Vec::as_slice);
            let free = files.iter().enumerate().find_map(|(index, file)| {
                match flock(file, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => Some(Ok((file, index + 1))),
                    Err(Errno::WOULDBLOCK) => None,
                    Err(error) => Some(Err(io::Error::from(error))),
                }
            });
            if let Some(Ok(place)) = free {
                taken.push(place);
                continue;
            }
            for (file, _) in taken {
                let _ = flock(file, FlockOperation::Unlock);
            }
            return free.transpose().map(|_| None);
        }
        Ok(Some(taken.into_iter().map(|(_, place)| place).collect()))
    }

    /// Gives these locks back; whoever waits for one may take it.
    pub fn release<'a>(&self, names: impl Iterator<Item = &'a str>) {
        for file in names.filter_map(|name| self.0.get(name)).flatten() {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }

    /// Whoever has one of these, or a copy, holds what is locked through it.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.values().flatten().map(AsFd::as_fd)
    }
}

fn file(dir: &Path, name: &str, place: u32) -> io::Result<File> {
    let mut file = encode_name(name.as_bytes());
    file.extend(format!(".{place}").into_bytes());
    let path = dir.join(OsString::from_vec(file));
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(&path) {
        // In a shared directory the kernel may refuse O_CREAT for a file that another user made.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.write(true).create(true).mode(0o644).open(&path)
        }
        other => other,
    }
}

/// Every process of this user must come to the same answer, whatever it can do and is allowed: two directories are two locks.
fn directory() -> Result<PathBuf, LockError> {
    let Some(given) = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty()) else {
        return directory_in(PLACES.map(Path::new), rustix::process::geteuid().as_raw());
    };
    let path = PathBuf::from(given);
    if path.is_relative() {
        let source = io::Error::other(format!(
            "{VARIABLE} begins with no /: it would be another in each directory"
        ));
        return Err(LockError { path, source });
    }
    Ok(path)
}

/// In the first place whose mode lets this user write. What fails there is an error: who goes on elsewhere holds what others
/// hold here.
fn directory_in(places: [&Path; 2], user: u32) -> Result<PathBuf, LockError> {
    let Some(place) = place(places, user) else {
        let path = places[0].to_owned();
        let source = io::Error::other(format!(
            "nor can {}: their modes keep this user out",
            places[1].display()
        ));
        return Err(LockError { path, source });
    };
    let path = place.join(format!("farmhand-{user}"));
    match private(&path, user) {
        Ok(()) => Ok(path),
        Err(source) => Err(LockError { path, source }),
    }
}

/// Groups do not count: they are a process's, and processes of one user have several.
fn place(places: [&Path; 2], user: u32) -> Option<&Path> {
    let lets = |place: &&Path| {
        fs::metadata(place).is_ok_and(|found| {
            let bits = if found.uid() == user { 0o300 } else { 0o003 };
            found.is_dir() && (user == 0 || found.mode() & bits == bits)
        })
    };
    places.into_iter().find(lets)
}

/// Makes a directory that nobody else can change, or finds it.
fn private(path: &Path, user: u32) -> io::Result<()> {
    if_missing(DirBuilder::new().mode(0o700).create(path))?;
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let owner = found.uid();
    Err(io::Error::other(format!(
        "it is not a directory of this user alone, but user {owner}'s, mode {:o}",
        found.mode() & 0o7777
    )))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn with_mode(mode: u32) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        dir
    }

    /// Nobody that these tests run as.
    const OTHER: u32 = 54321;

    #[test]
    fn the_mode_of_the_first_place_decides_and_not_what_one_process_can_do_there() {
        let me = rustix::process::geteuid().as_raw();
        let (open, closed) = (with_mode(0o1777), with_mode(0o755));
        let ours = format!("farmhand-{me}");
        let chosen = directory_in([open.path(), closed.path()], me).unwrap();
        assert_eq!(chosen, open.path().join(&ours));
        // What is there already is of another kind or another user's: another process may have had a directory there.
        fs::remove_dir(&chosen).unwrap();
        fs::write(&chosen, "").unwrap();
        let second = with_mode(0o1777);
        let told = directory_in([open.path(), second.path()], me)
            .unwrap_err()
            .to_string();
        assert!(told.contains(&ours), "{told}");
        assert!(!second.path().join(&ours).exists());
    }

    #[test]
    fn a_user_whom_the_mode_keeps_out_goes_to_the_second_place() {
        let (closed, open, gone) = (with_mode(0o755), with_mode(0o1777), Path::new("/not/there"));
        for first in [closed.path(), gone] {
            assert_eq!(place([first, open.path()], OTHER), Some(open.path()));
        }
        // A group is of a process, not of a user: cron, a login and `newgrp` have several.
        let group = with_mode(0o775);
        assert_eq!(place([group.path(), closed.path()], OTHER), None);
        assert_eq!(place([closed.path(), open.path()], 0), Some(closed.path()));
    }
}
