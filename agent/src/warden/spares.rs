//! Directories of ended attempts that the next ones take: on ext4, which looks through every inode that was freed in the last
//! seconds before it gives one out, making and removing them was a third of what a short command cost its warden.
//!
//! ```text
//! runs/spare/                0700
//!   RUN.ATTEMPT/             as an attempt's, with nothing in it but
//!     dir/                   empty, 0700, ours; without ACL, attribute or flag that a job gave it
//! ```
//!
//! Whatever is not so is removed as ever; so is what belonged to another user than the warden's, who may still have it open.
//! Whoever retires an attempt moves its directory here in one step, and the warden takes it in one, so that a spare is always
//! whole. A warden begins with none, and has none where it cannot tell by cgroups that an attempt has left no process.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::fs::{fchmod, flistxattr, ioctl_getflags, openat, renameat_with, unlinkat};

use super::log;

/// As many as ended and the next took at once; more are removed.
const MOST: usize = 64;
/// Output and how far it was sent; an attempt has fewer.
const FILES: usize = 8;
const DIRECTORY: &str = "spare";

/// Those that the warden knows of.
#[derive(Debug)]
pub(super) struct Spares {
    /// None where there are to be none: then each attempt's directories are new.
    dir: Option<PathBuf>,
    known: Vec<PathBuf>,
}

impl Spares {
    /// Removes those of an earlier warden. There will be none unless `wanted`.
    pub(super) fn new(runs: &Path, wanted: bool) -> Spares {
        let dir = runs.join(DIRECTORY);
        let cleared = match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ if wanted => std::fs::DirBuilder::new().mode(0o700).create(&dir),
            _ => Ok(()),
        };
        if let Err(error) = &cleared {
            log(format_args!("warden: {}: {error}", dir.display()));
        }
        Spares {
            dir: (wanted && cleared.is_ok()).then_some(dir),
            known: Vec::new(),
        }
    }

    /// Moves a spare to where nothing is yet; false: there is none.
    pub(super) fn take(&mut self, to: &Path) -> bool {
        let Some(dir) = &self.dir else {
            return false;
        };
        if self.known.is_empty() {
            let found = std::fs::read_dir(dir).into_iter().flatten();
            self.known.extend(found.flatten().map(|entry| entry.path()));
        }
        while let Some(spare) = self.known.pop() {
            if std::fs::rename(spare, to).is_ok() {
                return true;
            }
        }
        false
    }
}

/// Makes the directory of an ended attempt a spare; false: it is not fit to be one, or there are enough.
///
/// # Errors
/// When part of it could not be looked at. It is still whole enough to be removed.
pub(super) fn retire(runs: &Path, attempt: &str) -> io::Result<bool> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |at: &File, name: &str| openat(at, name, flags, Mode::empty()).map(File::from);
    let runs = File::from(rustix::fs::open(runs, flags, Mode::empty())?);
    let spares = open(&runs, DIRECTORY)?;
    if names(&spares)?.len() >= MOST {
        return Ok(false);
    }
    let whole = open(&runs, attempt)?;
    let (mut others, mut has_dir) = (Vec::new(), false);
    for name in names(&whole)? {
        match name.as_slice() {
            b"dir" => has_dir = true,
            _ => others.push(name),
        }
    }
    let ours = |name: &Vec<u8>| name.starts_with(b"output.") || name == b"run-log";
    if !has_dir || others.len() > FILES || !others.iter().all(ours) {
        return Ok(false);
    }
    let dir = open(&whole, "dir")?;
    let found = dir.metadata()?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // Another user's would be open to what that user still has open, whoever took it.
    if (found.uid(), found.gid()) != (user.as_raw(), group.as_raw()) {
        return Ok(false);
    }
    fchmod(&dir, Mode::RWXU)?;
    let plain = names(&dir)?.is_empty()
        && attributes(&dir)? == attributes(&whole)?
        && ioctl_getflags(&dir).ok() == ioctl_getflags(&whole).ok();
    if !plain {
        return Ok(false);
    }
    for name in others {
        unlinkat(&whole, name, AtFlags::empty())?;
    }
    let moved = renameat_with(&runs, attempt, &spares, attempt, RenameFlags::NOREPLACE);
    Ok(moved.is_ok())
}

fn names(dir: &File) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
        // Enough to say no.
        if names.len() > MOST {
            break;
        }
    }
    Ok(names)
}

/// The names of its extended attributes; `None` where there cannot be any.
fn attributes(dir: &File) -> io::Result<Option<Vec<u8>>> {
    let mut names = vec![0; 4096];
    match flistxattr(dir, &mut names) {
        Ok(length) => {
            names.truncate(length);
            Ok(Some(names))
        }
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// An attempt that left its output and nothing else.
    fn attempt(runs: &TempDir, name: &str) -> PathBuf {
        let attempt = runs.path().join(name);
        fs::create_dir(&attempt).unwrap();
        fs::DirBuilder::new()
            .mode(0o700)
            .create(attempt.join("dir"))
            .unwrap();
        for file in ["output.0", "output.7", "run-log"] {
            fs::write(attempt.join(file), "said").unwrap();
        }
        attempt
    }

    fn count(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn the_next_attempt_takes_it_without_what_was_said() {
        let runs = TempDir::new().unwrap();
        let mut spares = Spares::new(runs.path(), true);
        let (old, new) = (attempt(&runs, "1.1"), runs.path().join("2.1"));
        assert!(!spares.take(&new));
        assert!(retire(runs.path(), "1.1").unwrap());
        assert!(!old.exists());
        assert!(spares.take(&new));
        assert_eq!((count(&new), count(&new.join("dir"))), (1, 0));
        assert!(!spares.take(&runs.path().join("3.1")));
    }

    type Mark = fn(&Path);

    #[test]
    fn one_that_a_job_left_its_mark_on_is_none() {
        let marks: [(&str, Mark); 6] = [
            ("a file", |dir| fs::write(dir.join("x"), "").unwrap()),
            ("a hidden directory", |dir| {
                fs::create_dir(dir.join(".x")).unwrap()
            }),
            ("an attribute", |dir| {
                let kind = if rustix::process::geteuid().is_root() {
                    "trusted"
                } else {
                    "user"
                };
                let none = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(dir, format!("{kind}.x"), b"y", none).unwrap();
            }),
            ("no directory", |dir| fs::remove_dir(dir).unwrap()),
            ("a link", |dir| {
                fs::remove_dir(dir).unwrap();
                std::os::unix::fs::symlink("/", dir).unwrap();
            }),
            ("something beside it", |dir| {
                fs::write(dir.with_file_name("secrets"), "").unwrap()
            }),
        ];
        for (what, mark) in marks {
            let runs = TempDir::new().unwrap();
            let mut spares = Spares::new(runs.path(), true);
            let old = attempt(&runs, "1.1");
            mark(&old.join("dir"));
            assert!(!retire(runs.path(), "1.1").unwrap_or(false), "{what}");
            assert!(old.exists() && !spares.take(&runs.path().join("2.1")), "{what}");
        }
    }

    #[test]
    fn there_are_so_many_and_none_where_none_are_wanted_or_for_a_new_warden() {
        let runs = TempDir::new().unwrap();
        let mut spares = Spares::new(runs.path(), true);
        for n in 0..=MOST {
            attempt(&runs, &format!("{n}.1"));
            assert_eq!(retire(runs.path(), &format!("{n}.1")).unwrap(), n < MOST);
        }
        assert!(spares.take(&runs.path().join("new")));
        assert!(!Spares::new(runs.path(), true).take(&runs.path().join("next")));
        attempt(&runs, "100.1");
        assert!(retire(runs.path(), "100.1").unwrap());
        assert!(!Spares::new(runs.path(), false).take(&runs.path().join("next")));
        attempt(&runs, "101.1");
        assert!(!retire(runs.path(), "101.1").unwrap_or(false));
    }
}
