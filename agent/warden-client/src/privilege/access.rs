//! Who may read what attempts have written, and go on writing.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::bounds::Bounds;
use crate::paths::{Paths, named};
use farmhand_os::files::if_there;

/// Makes what is missing. The private directory must be ours alone.
pub fn prepare(paths: &Paths) -> io::Result<()> {
    let make = |path: &Path, mode| match fs::DirBuilder::new().mode(mode).create(path) {
        // The umask may have taken the passing-through away.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(named(error, path)),
    };
    if let Some(parent) = paths.state_dir().parent() {
        fs::create_dir_all(parent).map_err(|e| named(e, parent))?;
    }
    make(paths.state_dir(), 0o711)?;
    make(&paths.runs(), 0o711)?;
    make(&paths.memory(), 0o700)?;
    let private = paths.private_dir();
    make(&private, 0o700)?;
    let found = fs::metadata(&private).map_err(|e| named(e, &private))?;
    let us = rustix::process::geteuid().as_raw();
    if found.uid() != us || found.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "{} must belong to uid {us} with mode 0700; it belongs to uid {} with mode {:04o}",
            private.display(),
            found.uid(),
            found.mode() & 0o7777
        )));
    }
    // A directory from an earlier time is brought into line, whoever the agent has become.
    if let Some(bounds) = Bounds::now(paths)? {
        let runs = paths.runs();
        if !regroup(&runs, bounds.agent.gid, 0o751)? {
            let why = format!(
                "{} must be a directory of uid {us}'s, and no link",
                runs.display()
            );
            return Err(io::Error::other(why));
        }
    }
    Ok(())
}
/// This group, too; `None`: root alone.
pub(super) fn give_to_group(state_dir: &Path, reader: Option<u32>) -> io::Result<()> {
    let (gid, dir_mode, file_mode) = match reader {
        Some(gid) => (gid, 0o751, 0o640),
        None => (0, 0o711, 0o600),
    };
    let paths = Paths::new(state_dir);
    regroup(&paths.runs(), gid, dir_mode)?;
    for id in paths.attempts_on_disk()? {
        let dir = paths.attempt_dir(id);
        if !regroup(&dir, gid, dir_mode)? {
            continue;
        }
        // Attempts end and are removed meanwhile.
        for entry in if_there(fs::read_dir(&dir))?.into_iter().flatten() {
            let Some(entry) = if_there(entry)? else {
                continue;
            };
            let file_type = if_there(entry.file_type())?;
            if file_type.is_some_and(|found| found.is_file()) {
                regroup(&entry.path(), gid, file_mode)?;
            }
        }
    }
    Ok(())
}

/// Gives what is ours to a group; false: it is somebody else's, a link, or gone.
fn regroup(path: &Path, gid: u32, mode: u32) -> io::Result<bool> {
    // A FIFO would be waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::LOOP) => return Ok(false),
        other => fs::File::from(other.map_err(|e| named(e.into(), path))?),
    };
    let given = || {
        if file.metadata()?.uid() != rustix::process::geteuid().as_raw() {
            return Ok(false);
        }
        fchown(&file, None, Some(gid))?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        Ok(true)
    };
    given().map_err(|e| named(e, path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::wire::AttemptId;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn id(run_id: i64) -> AttemptId {
        AttemptId { run_id, attempt: 1 }
    }

    #[test]
    fn output_is_shown_and_what_a_link_leads_to_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let paths = Paths::new(base.path());
        let (dir, outside) = (paths.attempt_dir(id(1)), base.path().join("outside"));
        for made in [&paths.run_dir(id(1)), &outside] {
            fs::create_dir_all(made).unwrap();
            fs::set_permissions(made, fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(dir.join("output.0"), "").unwrap();
        symlink(&outside, paths.attempt_dir(id(2))).unwrap();
        symlink(&outside, dir.join("output.1")).unwrap();
        let gid = fs::metadata(&dir).unwrap().gid();
        give_to_group(base.path(), Some(gid)).unwrap();
        let shown = [paths.runs(), dir.clone(), dir.join("output.0")];
        assert_eq!(shown.each_ref().map(|p| mode(p)), [0o751, 0o751, 0o640]);
        if rustix::process::geteuid().is_root() {
            give_to_group(base.path(), None).unwrap();
            assert_eq!(shown.each_ref().map(|p| mode(p)), [0o711, 0o711, 0o600]);
        }
        assert_eq!([&paths.run_dir(id(1)), &outside].map(|p| mode(p)), [0o700, 0o700]);
    }

    #[test]
    fn attempts_that_go_meanwhile_are_no_mistake() {
        let base = tempfile::tempdir().unwrap();
        let paths = Paths::new(base.path());
        fs::create_dir(paths.runs()).unwrap();
        let gid = fs::metadata(paths.runs()).unwrap().gid();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for run in 0..20 {
                        fs::create_dir(paths.attempt_dir(id(run))).unwrap();
                        fs::write(paths.attempt_dir(id(run)).join("output.0"), "").unwrap();
                    }
                    for run in 0..20 {
                        fs::remove_dir_all(paths.attempt_dir(id(run))).unwrap();
                    }
                }
            });
            let results: Vec<_> = (0..300).map(|_| give_to_group(base.path(), Some(gid))).collect();
            done.store(true, Ordering::Relaxed);
            for result in results {
                result.unwrap();
            }
        });
    }
}
