//! Removing what a job left, whatever it made of it: directories nested deeper than any stack, links, mounts, more and more
//! files. One directory is open at a time beside the top one; what is found in it that is a directory and not empty is moved
//! up into the top one, so that nothing is ever walked down. No link is followed and no mount entered.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Longer than a million files take. Somebody may be making more.
pub const WITHIN: Duration = Duration::from_secs(600);
/// For the warden, which must not wait for it.
pub const BRIEFLY: Duration = Duration::from_millis(100);
/// Directories that were moved up and are still known by name; others are found by reading again.
const KNOWN: usize = 1024;
/// Names tried for what is put aside.
const ASIDE: u32 = 1000;

/// What is left has been put aside.
#[derive(Debug, thiserror::Error)]
#[error("{why}; what is left of it is in {}", aside.display())]
pub struct NotRemoved {
    pub aside: PathBuf,
    /// The first thing that could not be removed.
    pub why: io::Error,
}

/// Removes a directory with everything in it. What cannot be removed is put aside, under a name of its own beside it.
/// Errors: [`NotRemoved`]; or that it could not even be put aside.
pub fn remove(path: &Path, within: Duration) -> Result<(), NotRemoved> {
    let Err(why) = Removal::of(path, Instant::now() + within) else {
        return Ok(());
    };
    Err(match put_aside(path) {
        Ok(aside) => NotRemoved { aside, why },
        Err(error) => NotRemoved {
            aside: path.to_owned(),
            why: io::Error::new(why.kind(), format!("{why}; and it cannot be put aside: {error}")),
        },
    })
}

/// Gives it a name that begins with a dot, in the same directory. Takes no longer however much is in it.
pub fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 0..ASIDE {
        let aside = path.with_file_name(format!(".left-{name}-{number}"));
        if fs::symlink_metadata(&aside).is_ok() {
            continue;
        }
        return match fs::rename(path, &aside) {
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => continue,
            other => other.map(|()| aside),
        };
    }
    Err(io::Error::other(format!(
        "{ASIDE} of this name have been put aside already"
    )))
}

struct Removal {
    top: OwnedFd,
    until: Instant,
    /// The number in the name of what is moved up next.
    next: u64,
    /// Moved up and not looked at yet.
    known: Vec<CString>,
    first_error: Option<Errno>,
}

impl Removal {
    fn of(path: &Path, until: Instant) -> io::Result<()> {
        let top = match open(rustix::fs::CWD, path) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
        let mut removal = Removal {
            top,
            until,
            next: 0,
            known: Vec::new(),
            first_error: None,
        };
        // Each pass ends with fewer directories, or changes nothing.
        while removal.pass()? {}
        match (fs::remove_dir(path), removal.first_error) {
            (Err(e), _) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            (Err(_), Some(first)) => Err(first.into()),
            (removed, _) => removed,
        }
    }

    /// Everything that is in the top directory. Answers whether anything went.
    fn pass(&mut self) -> io::Result<bool> {
        let mut went = false;
        for entry in Dir::read_from(&self.top)? {
            let entry = entry?;
            went |= self.entry(entry.file_name(), entry.file_type())?;
            while let Some(name) = self.known.pop() {
                went |= self.entry(&name, FileType::Directory)?;
            }
        }
        Ok(went)
    }

    fn entry(&mut self, name: &CStr, kind: FileType) -> io::Result<bool> {
        if is_itself(name) {
            return Ok(false);
        }
        if self.gone(&self.top, name, kind)? {
            return Ok(true);
        }
        if kind != FileType::Directory && !self.is_directory(name) {
            return Ok(false);
        }
        let sub = match open(&self.top, name) {
            Ok(sub) => sub,
            Err(error) => return Ok(self.failed(error)),
        };
        let mut went = false;
        for entry in Dir::read_from(&sub)? {
            let entry = entry?;
            let inner = entry.file_name();
            if is_itself(inner) {
                continue;
            }
            went |= self.gone(&sub, inner, entry.file_type())? || self.move_up(&sub, inner);
        }
        Ok(self.gone(&self.top, name, FileType::Directory)? || went)
    }

    /// Whether this is no more: a file, a link, or an empty directory.
    fn gone(&self, dir: &OwnedFd, name: &CStr, kind: FileType) -> io::Result<bool> {
        if Instant::now() > self.until {
            let why = "it takes too long: is something writing into it?";
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        let file = if kind == FileType::Directory {
            Err(Errno::ISDIR)
        } else {
            unlinkat(dir, name, AtFlags::empty())
        };
        Ok(match file {
            Ok(()) | Err(Errno::NOENT) => true,
            Err(_) => matches!(
                unlinkat(dir, name, AtFlags::REMOVEDIR),
                Ok(()) | Err(Errno::NOENT)
            ),
        })
    }

    fn is_directory(&mut self, name: &CStr) -> bool {
        match rustix::fs::statat(&self.top, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => true,
            Ok(_) => self.failed(Errno::PERM),
            Err(error) => self.failed(error),
        }
    }

    fn move_up(&mut self, from: &OwnedFd, name: &CStr) -> bool {
        loop {
            let up = CString::new(format!(".{}", self.next)).unwrap_or_default();
            self.next += 1;
            match renameat(from, name, &self.top, &up) {
                Ok(()) => {
                    if self.known.len() < KNOWN {
                        self.known.push(up);
                    }
                    return true;
                }
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {}
                // A mount, or what its owner made unchangeable.
                Err(error) => return self.failed(error),
            }
        }
    }

    fn failed(&mut self, error: Errno) -> bool {
        self.first_error.get_or_insert(error);
        false
    }
}

fn is_itself(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

fn open<P: rustix::path::Arg>(dir: impl std::os::fd::AsFd, path: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// In memory: a disk takes a minute for what is nested deeply.
    fn scratch(name: &str) -> PathBuf {
        let dir = Path::new("/dev/shm").join(format!("farmhand-removal-{name}-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        dir
    }

    /// Made from the inside out: no path is longer than a few bytes.
    fn nest(top: &Path, depth: usize) {
        let (inner, outer) = (top.join("inner"), top.join("outer"));
        fs::create_dir(&inner).unwrap();
        for _ in 0..depth {
            fs::create_dir(&outer).unwrap();
            fs::rename(&inner, outer.join("d")).unwrap();
            fs::rename(&outer, &inner).unwrap();
        }
    }

    #[test]
    fn what_is_nested_deeper_than_any_stack_goes_with_a_small_one() {
        let dir = scratch("deep");
        let top = dir.join("1.1");
        fs::create_dir(&top).unwrap();
        nest(&top, 60_000);
        let removal = std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || remove(&top, WITHIN));
        removal.unwrap().join().unwrap().unwrap();
        fs::remove_dir(&dir).unwrap();
    }

    #[test]
    fn wide_and_deep_with_files_links_and_names_like_its_own() {
        let dir = scratch("wide");
        let (top, outside) = (dir.join("1.1"), dir.join("outside"));
        fs::create_dir_all(outside.join("kept")).unwrap();
        for a in 0..40 {
            for b in 0..40 {
                let deep = top.join(format!(".{a}/{b}/x/y"));
                fs::create_dir_all(&deep).unwrap();
                fs::write(deep.join("file"), "text").unwrap();
                symlink(&outside, deep.join("link")).unwrap();
            }
        }
        symlink(&outside, top.join("out")).unwrap();
        remove(&top, WITHIN).unwrap();
        remove(&top, WITHIN).unwrap();
        assert!(!top.exists() && outside.join("kept").exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_cannot_be_removed_in_time_is_put_aside_each_time_under_a_name_of_its_own() {
        let dir = scratch("late");
        let top = dir.join("1.1");
        for number in 0..2 {
            fs::create_dir_all(top.join("a/b")).unwrap();
            let left = remove(&top, Duration::ZERO).unwrap_err();
            assert_eq!(left.aside, dir.join(format!(".left-1.1-{number}")));
            assert!(left.aside.join("a/b").exists() && !top.exists(), "{left}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let dir = scratch("link");
        let (top, outside) = (dir.join("1.1"), dir.join("outside"));
        fs::create_dir_all(outside.join("kept")).unwrap();
        symlink(&outside, &top).unwrap();
        let left = remove(&top, WITHIN).unwrap_err();
        assert!(outside.join("kept").exists() && !top.exists(), "{left}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
