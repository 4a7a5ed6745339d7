//! Where a flow keeps its FIFOs, its tasks' output and its record: a directory private to its user.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use farmhand_core::flow::{Direction, encode_name};
use farmhand_os::files::if_there;
use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;

use super::events::Event;
use super::fifo::{Directory, Fifos};
use crate::journal::Journal;

/// Time for waiters of a dead engine's flow to hear of it.
const RECOVERY: Duration = Duration::from_secs(2);
/// Time for the guardian of an engine that was killed a moment ago to say that it ends the tasks.
const ANSWER: Duration = Duration::from_millis(200);
/// Time for the guardian to end them.
const ENDED_WITHIN: Duration = Duration::from_secs(10);
/// How the names of the directories begin that flows without `--run-dir` make.
const TEMPORARY: &str = "farmhand-flow-";
/// How long the output of a flow that failed is kept there.
const KEPT: Duration = Duration::from_secs(7 * 86_400);

/// Why a flow cannot use its directory.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    #[error("the flow's directory {} cannot be used", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("another engine is running a flow in {}", .0.display())]
    Taken(PathBuf),
    #[error("tasks of an engine that was killed still run in {} and cannot be ended", .0.display())]
    Ending(PathBuf),
    #[error("the last run in --run-dir was to {before}, and this one is to {now}")]
    OtherDirection { before: String, now: &'static str },
}

/// Held by one engine at a time.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Where FIFOs are made and deleted by the thousand: in memory, if the directory need not outlive the flow.
    /// ext4 takes longer for that than the tasks themselves.
    memory: Option<PathBuf>,
    temporary: bool,
    /// Part of a run's directory, which goes when the run ends.
    within_run: bool,
    record: Journal,
    lock: File,
}

/// What counts of a line of the record: an event as `--json` prints it.
#[derive(Debug, Deserialize)]
struct Line {
    task: String,
    outcome: String,
}

impl RunDir {
    /// In the lock's file while a guardian ends the tasks of an engine that was killed.
    pub const ENDING: &[u8] = b"ending\n";

    /// Makes a new one, or takes the given one over from an engine that is gone; whoever waits for that
    /// one's tasks is woken and told `engine-lost`. `resume` keeps its record.
    /// Errors: When it cannot be made (no space, read-only) or a living engine uses it; and when its record is of the other direction:
    /// what was started has not been stopped.
    pub fn prepare(given: Option<&Path>, resume: bool, direction: Direction) -> Result<Self, RunDirError> {
        let (path, temporary) = match given {
            Some(path) => (path.to_owned(), false),
            None => temporary_path().map_err(|e| failed(&std::env::temp_dir(), e))?,
        };
        let mut dir = match Self::take(&path, temporary, resume, direction) {
            // Another engine of the same run: this one has a directory beside that one's, which it removes after success.
            Err(RunDirError::Taken(taken)) if given.is_none() && !temporary => {
                let own = format!("flow-{}", uuid::Uuid::new_v4().simple());
                let mut dir = Self::take(&taken.with_file_name(own), false, false, direction)?;
                dir.temporary = true;
                dir
            }
            other => other?,
        };
        dir.within_run = given.is_none() && !temporary;
        Ok(dir)
    }

    fn take(path: &Path, temporary: bool, resume: bool, direction: Direction) -> Result<Self, RunDirError> {
        let io = |e| failed(path, e);
        private().recursive(true).create(path).map_err(io)?;
        let path = fs::canonicalize(path).map_err(io)?;
        let lock = open(&path.join("lock")).map_err(io)?;
        take_lock(&lock, &path)?;
        let (noted, now) = (path.join("direction"), direction.as_str());
        // A full disk leaves it empty.
        if resume
            && let Ok(before) = fs::read_to_string(&noted)
            && !before.is_empty()
            && before != now
        {
            return Err(RunDirError::OtherDirection { before, now });
        }
        lock.set_len(0).map_err(io)?;
        fs::write(noted, now).map_err(io)?;
        let record = path.join("record");
        if !resume {
            if_there(fs::remove_file(&record)).map_err(io)?;
        }
        let dir = Self {
            record: Journal::open(&record).map_err(io)?,
            path,
            memory: if temporary { in_memory() } else { None },
            temporary,
            within_run: false,
            lock,
        };
        dir.clear().map_err(|e| failed(&dir.path, e))?;
        Ok(dir)
    }

    fn clear(&self) -> io::Result<()> {
        let deps = self.deps();
        if deps.exists() {
            if let Ok(mut fifos) = Directory::open(&deps).and_then(Fifos::new) {
                fifos.recover()?;
                fifos.settle(RECOVERY);
            }
            fs::remove_dir_all(&deps)?;
        }
        if_there(fs::remove_dir_all(self.path.join("log")))?;
        private().create(self.path.join("log"))
    }

    /// Where it is in the file system.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the output of each task stays for a while after the flow; None when it goes with the run that the flow belongs to.
    pub fn lasting_log(&self) -> Option<PathBuf> {
        (!self.within_run).then(|| self.path.join("log"))
    }

    /// Whoever has it, or a copy of it, keeps other engines out.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// What `$FARMHAND_DEPS` says.
    pub fn deps(&self) -> PathBuf {
        self.memory.as_ref().unwrap_or(&self.path).join("deps")
    }

    /// The part that the guardian deletes if this process is killed.
    pub fn memory(&self) -> Option<&Path> {
        self.memory.as_deref()
    }

    pub(crate) fn log_path(&self, task: &str) -> PathBuf {
        let mut name = encode_name(task.as_bytes());
        name.extend(b".log");
        self.path.join("log").join(OsString::from_vec(name))
    }

    /// The file a task's output goes to; further tries add to it.
    pub fn log(&self, task: &str) -> io::Result<File> {
        open(&self.log_path(task))
    }

    pub(crate) fn record(&mut self, end: &Event<'_>) -> io::Result<()> {
        self.record.add(end)
    }

    /// The tasks that the record says succeeded. A line that a crash cut short counts for nothing.
    pub fn finished(&self) -> io::Result<BTreeSet<String>> {
        let mut finished = BTreeSet::new();
        for line in BufReader::new(File::open(self.path.join("record"))?).split(b'\n') {
            let Ok(line) = serde_json::from_slice::<Line>(&line?) else {
                continue;
            };
            if line.outcome == "succeeded" {
                finished.insert(line.task);
            } else {
                finished.remove(&line.task);
            }
        }
        Ok(finished)
    }

    /// The FIFOs are of no use any more; the output is.
    pub(crate) fn forget_memory(&mut self) {
        if let Some(memory) = self.memory.take() {
            let _ = fs::remove_dir_all(memory);
        }
    }

    /// Deletes it, unless `--run-dir` named it.
    pub fn remove(mut self) {
        self.forget_memory();
        if self.temporary {
            // What stays is removed by a later flow.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        self.forget_memory();
    }
}

/// Waits for a guardian that ends tasks; never for a living engine.
fn take_lock(lock: &File, path: &Path) -> Result<(), RunDirError> {
    let began = Instant::now();
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(e) => return Err(failed(path, e.into())),
        }
        let ending = lock.metadata().map_err(|e| failed(path, e))?.len() > 0;
        let waited = began.elapsed();
        if ending && waited > ENDED_WITHIN {
            return Err(RunDirError::Ending(path.to_owned()));
        }
        if !ending && waited > ANSWER {
            return Err(RunDirError::Taken(path.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn temporary_path() -> io::Result<(PathBuf, bool)> {
    if let Some(run) = std::env::var_os("FARMHAND_RUN_DIR").filter(|d| !d.is_empty()) {
        return Ok((Path::new(&run).join("flow"), false));
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let base = own.filter(|d| d.is_dir()).unwrap_or_else(std::env::temp_dir);
    remove_old(&base, KEPT);
    let path = base.join(format!("{TEMPORARY}{}", uuid::Uuid::new_v4().simple()));
    private().create(&path)?;
    Ok((path, true))
}

/// Removes the directories of this user's flows that failed longer ago than `kept`. Whatever cannot be read or removed stays.
fn remove_old(base: &Path, kept: Duration) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        let named = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        // Written to whenever a task ends.
        let last = fs::metadata(path.join("record")).and_then(|record| record.modified());
        let age = last
            .or_else(|_| meta.modified())
            .ok()
            .and_then(|at| at.elapsed().ok());
        if !named || !meta.is_dir() || meta.uid() != own || age.is_none_or(|age| age < kept) {
            continue;
        }
        let lock = File::open(path.join("lock"));
        // A living engine holds its lock, however long it has been at work.
        if lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// A directory in Linux's shared memory, where there is some.
fn in_memory() -> Option<PathBuf> {
    let name = format!("farmhand-flow-{}", uuid::Uuid::new_v4().simple());
    let path = Path::new("/dev/shm").join(name);
    private().create(&path).ok()?;
    Some(path)
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

fn failed(path: &Path, source: io::Error) -> RunDirError {
    RunDirError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_directories_that_no_engine_uses_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = base.path().join(format!("{TEMPORARY}{name}"));
            RunDir::take(&path, false, false, Direction::Start).unwrap()
        };
        let (used, _) = (make("used"), drop(make("old")));
        fs::create_dir(base.path().join("something else")).unwrap();
        remove_old(base.path(), Duration::from_secs(3600));
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 3, "none is that old");
        remove_old(base.path(), Duration::ZERO);
        assert!(used.path().exists() && base.path().join("something else").exists());
        assert!(!base.path().join(format!("{TEMPORARY}old")).exists());
    }

    #[test]
    fn a_record_that_a_crash_cut_short_within_a_letter_is_gone_on_with() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("flow");
        drop(RunDir::take(&path, false, false, Direction::Start).unwrap());
        let line = |task: &str| serde_json::json!({"task": task, "outcome": "succeeded"});
        let whole = format!("{}\n{}\n", line("one"), line("zwölf"));
        let within = whole.find('ö').unwrap() + 1;
        fs::write(path.join("record"), &whole.as_bytes()[..within]).unwrap();
        let mut dir = RunDir::take(&path, false, true, Direction::Start).unwrap();
        dir.record.add(&line("two")).unwrap();
        let finished = ["one", "two"].map(str::to_owned);
        assert_eq!(dir.finished().unwrap(), BTreeSet::from(finished));
    }
}
