//! Names without an engine: whoever marks one completes it, and finishes what another was killed at.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, mknodat, openat, renameat};

use super::directory::Directory;
use super::fifos::Fifos;
use super::names::{Status, aside, file_name, is_fifo, unlink};

/// What such a directory has, and an engine's has not. Locked by who changes something.
const MARKER: &str = ".alone";
/// For readers that are on their way to a FIFO when its name is marked.
const SETTLE: Duration = Duration::from_secs(2);

/// Whether names there are marked by anybody, and not by an engine.
pub fn is_without_engine(deps: &Path) -> bool {
    deps.join(MARKER).exists()
}

/// Makes the directory unless it is there. From now on the names can be waited for; names that there are stay as they are,
/// also those that were marked, unless they are to be waited for `again`.
pub fn init(deps: &Path, names: &[String], again: bool) -> io::Result<()> {
    make(deps)?;
    let (fifos, lock) = take(deps)?;
    let root = fifos.directory().root();
    for name in names {
        let file = file_name(name);
        match rustix::fs::statat(root, &file, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => fifos.announce(name)?,
            Err(e) => return Err(e.into()),
            Ok(_) => {}
        }
    }
    drop(lock);
    for name in names.iter().filter(|_| again) {
        rearm(deps, name)?;
    }
    Ok(())
}

/// What was begun of an earlier mark is finished first.
fn rearm(deps: &Path, name: &str) -> io::Result<()> {
    let (mut fifos, _lock) = take(deps)?;
    let file = file_name(name);
    if fifos.finish(&file)? || !is_fifo(fifos.directory().root(), &file) {
        fifos.settle(SETTLE);
        let new = aside(&file, ".new");
        let dir = fifos.directory();
        unlink(dir.work(), &new)?;
        mknodat(dir.work(), &new, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        unlink(dir.statuses(), &file)?;
        renameat(dir.work(), &new, dir.root(), &file)?;
    }
    Ok(())
}

/// Wakes who waits for the name; a second time it finishes what the first was killed at, and changes nothing. Whether there is
/// such a name.
/// Errors: When the status cannot be written, or the directory belongs to an engine.
pub fn mark(deps: &Path, name: &str, status: &Status) -> io::Result<bool> {
    let (mut fifos, _lock) = take(deps)?;
    let file = file_name(name);
    if !fifos.finish(&file)? {
        if is_fifo(fifos.directory().root(), &file) {
            fifos.complete(name, status, Instant::now())?;
        } else if deps.join(&file).exists() {
            // `init` was killed after it removed the status of before and before it put a FIFO here: nothing waits.
            fifos.directory().write_status(&file, status)?;
        }
    }
    fifos.settle(SETTLE);
    Ok(deps.join(&file).exists())
}

fn make(deps: &Path) -> io::Result<()> {
    if deps.exists() {
        return Ok(());
    }
    let mut aside = deps.as_os_str().to_owned();
    aside.push(format!(".{}", std::process::id()));
    let aside = Path::new(&aside);
    let _ = std::fs::remove_dir_all(aside);
    Directory::create(aside)?;
    File::create(aside.join(MARKER))?;
    // Another may have been quicker: then there is one, and this one goes.
    let renamed = std::fs::rename(aside, deps);
    let _ = std::fs::remove_dir_all(aside);
    if deps.exists() { Ok(()) } else { renamed }
}

fn take(deps: &Path) -> io::Result<(Fifos, File)> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = match openat(rustix::fs::CWD, deps.join(MARKER), flags, Mode::empty()) {
        Ok(lock) => File::from(lock),
        Err(rustix::io::Errno::NOENT) => {
            let what = format!("{} was not made by `flow init`", deps.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Err(e) => return Err(e.into()),
    };
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok((Directory::open(deps).and_then(Fifos::new)?, lock))
}
