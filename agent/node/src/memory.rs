//! What this agent remembers of the database, also over its own restarts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use farmhand_core::lease::{Database, MAX_REMEMBERED_EPOCH, Remembered};
use farmhand_store::protocol::Claimed;

use farmhand_os::machine;
use farmhand_os::open_beneath;

const FILE: &str = "database.json";
const LONGEST: u64 = 1 << 16;

/// In memory always as of the latest renewal; on the disk a little behind, but never an epoch.
pub(crate) struct Memory {
    dir: PathBuf,
    boot: Option<String>,
    latest: Mutex<Option<Remembered>>,
    /// Held while the file is written.
    written: Mutex<Option<Remembered>>,
    /// Why the last write failed.
    failed: Mutex<Option<String>>,
}

impl Memory {
    /// What the agent before this one left. A file that cannot be read is none: a database that nobody knows is watched.
    pub(crate) fn read(dir: PathBuf) -> Self {
        Self::read_in(dir, machine::boot_id().ok())
    }

    fn read_in(dir: PathBuf, boot: Option<String>) -> Self {
        let mut left = left(&dir);
        if let Some(left) = left.as_mut().filter(|left| left.boot != boot) {
            left.boot = None;
        }
        Self {
            dir,
            boot,
            latest: Mutex::new(left.clone()),
            written: Mutex::new(left),
            failed: Mutex::default(),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn boot(&self) -> Option<&str> {
        self.boot.as_deref()
    }

    pub(crate) fn latest(&self) -> Option<Remembered> {
        lock(&self.latest).clone()
    }

    /// The latest, when this database has less than it.
    pub(crate) fn contradicting(&self, shown: &Database) -> Option<Remembered> {
        self.latest().filter(|memory| memory.contradicts(shown))
    }

    pub(crate) fn learn(&self, now: Remembered) {
        let mut latest = lock(&self.latest);
        match latest.as_mut() {
            Some(latest) => latest.learn(now),
            None => *latest = Some(now),
        }
    }

    /// A poll was answered.
    pub(crate) fn saw(&self, shown: &Database) {
        if let Some(latest) = lock(&self.latest).as_mut() {
            latest.saw(shown);
        }
    }

    pub(crate) fn claimed(&self, claimed: &[Claimed]) {
        if let Some(latest) = lock(&self.latest).as_mut() {
            claimed.iter().for_each(|c| latest.claimed(c.fence, c.run_id));
        }
    }

    /// Whether the disk has the epoch that `latest` has.
    pub(crate) fn is_durable(&self) -> bool {
        let epoch = |of: &Option<Remembered>| of.as_ref().map(|m| (m.farm_id, m.id));
        // A write under way is not waited for.
        self.written
            .try_lock()
            .is_ok_and(|written| epoch(&written) == epoch(&lock(&self.latest)))
    }

    /// Why the disk has not the epoch that `latest` has, in which nothing is claimed therefore.
    pub(crate) fn unwritten(&self) -> Option<String> {
        let why = self
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        (!self.is_durable()).then(|| {
            format!(
                "{}: cannot write what is remembered of the database: {why}",
                self.dir.display()
            )
        })
    }

    /// Writes what is latest. A new epoch is on the disk when this returns true; after a power failure the rest may be that of
    /// an earlier renewal, which costs only a wait. It may block; while it does, others do nothing.
    pub(crate) fn write(&self) -> io::Result<bool> {
        let result = self.write_latest();
        let failed = result.as_ref().err().map(ToString::to_string);
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        result
    }

    fn write_latest(&self) -> io::Result<bool> {
        let Ok(mut written) = self.written.try_lock() else {
            return Ok(false);
        };
        let Some(latest) = self.latest() else {
            return Ok(false);
        };
        if written.as_ref() == Some(&latest) {
            return Ok(true);
        }
        let (new, place) = (self.dir.join("database.new"), self.dir.join(FILE));
        // Made anew: the directory may belong to a user who put a link there.
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(&serde_json::to_vec(&latest)?)?;
        let same = written
            .as_ref()
            .is_some_and(|w| (w.farm_id, w.id) == (latest.farm_id, latest.id));
        // A file that is renamed before its bytes are on the disk may be empty after a power failure, and the epoch with it.
        file.sync_all()?;
        fs::rename(&new, &place)?;
        if !same {
            File::open(&self.dir)?.sync_all()?;
        }
        *written = Some(latest);
        Ok(true)
    }
}

fn left(dir: &Path) -> Option<Remembered> {
    let mut text = Vec::new();
    let file = open_beneath::open(dir, FILE).ok()?;
    let read = file.take(LONGEST).read_to_end(&mut text);
    let left = read.map_err(|e| e.to_string()).and_then(|_| {
        let left: Remembered = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        match left.epoch {
            1..=MAX_REMEMBERED_EPOCH => Ok(left),
            epoch => Err(format!("no farm has an epoch {epoch}")),
        }
    });
    left.inspect_err(|e| {
        tracing::warn!(
            "{}: what this agent remembered of the database is not used: {e}",
            dir.join(FILE).display()
        );
    })
    .ok()
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn of(epoch: u128) -> Remembered {
        Remembered {
            farm_id: Uuid::nil(),
            epoch: 1,
            id: Uuid::from_u128(epoch),
            pulse: 1,
            fence: 0,
            run: 0,
            longest_lease_ms: 0,
            address: "a".into(),
            session: 1,
            incarnation: Uuid::nil(),
            renewals: 1,
            boot: machine::boot_id().ok(),
        }
    }

    #[test]
    fn an_epoch_is_durable_once_it_is_written_and_the_next_agent_reads_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let memory = Memory::read(dir.path().to_owned());
        assert_eq!(memory.latest(), None);
        memory.learn(of(1));
        assert!(!memory.is_durable());
        assert!(memory.write().expect("written"));
        assert!(memory.is_durable());
        memory.learn(Remembered { pulse: 2, ..of(1) });
        assert!(memory.is_durable());
        memory.learn(of(2));
        assert!(!memory.is_durable());
        assert!(memory.write().expect("written"));
        assert_eq!(Memory::read(dir.path().to_owned()).latest(), Some(of(2)));
        let later = Memory::read_in(dir.path().to_owned(), Some("a later boot".into()));
        assert_eq!(later.latest(), Some(Remembered { boot: None, ..of(2) }));
        fs::write(dir.path().join(FILE), "torn").expect("written");
        assert_eq!(Memory::read(dir.path().to_owned()).latest(), None);
        let impossible = Remembered {
            epoch: 4_000_000,
            ..of(2)
        };
        let text = serde_json::to_vec(&impossible).expect("plain data");
        fs::write(dir.path().join(FILE), text).expect("written");
        assert_eq!(Memory::read(dir.path().to_owned()).latest(), None);
    }
}
