//! The highest serial seen of each job, in a file of the node: what the database says cannot take it back.
//!
//! One line `SERIAL JOB` per job. Several wardens share the file: it is changed under a lock, by writing another beside it.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use farmhand_os::files::{if_there, replace};
use rustix::fs::{FlockOperation, flock};

use super::refused::Refused;

/// Jobs remembered. None is ever forgotten, because that would let its old definitions back in; one more is refused.
pub const MOST: usize = 65_536;
const LONGEST: u64 = 32 << 20;

/// What one process knows of the file.
#[derive(Debug)]
pub struct Seen {
    path: PathBuf,
    known: BTreeMap<String, u64>,
    /// Which version of the file that is.
    read: Option<(u64, u64, i64)>,
}

impl Seen {
    /// `path`: in a directory that nobody else can write to.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            known: BTreeMap::new(),
            read: None,
        }
    }

    /// Takes note of a serial that a trusted signature names. Kept on disk before it returns.
    /// Errors: [`Refused::Older`] below the highest seen; [`Refused::Memory`] when it cannot be kept.
    pub fn note(&mut self, job: &str, serial: u64) -> Result<(), Refused> {
        let memory = |why: String| Refused::Memory { why };
        if job.is_empty() || job.contains(char::is_whitespace) {
            return Err(memory(format!("{job:?} is not a valid job name")));
        }
        self.refresh().map_err(|e| memory(self.said(&e)))?;
        if !self.advances(job, serial)? {
            return Ok(());
        }
        self.raise([(job, serial)])?;
        // Another warden may have been first.
        match self.known.get(job) {
            Some(_) => self.advances(job, serial).map(|_| ()),
            None => Err(memory(format!("{} knows {MOST} jobs", self.path.display()))),
        }
    }

    /// Takes note of serials that trusted signatures name and of which nothing is executed now: lower ones, and those for
    /// which there is no room, are passed over.
    /// Errors: [`Refused::Memory`] when they cannot be kept.
    pub fn note_all(&mut self, serials: &[(String, u64)]) -> Result<(), Refused> {
        self.refresh()
            .map_err(|e| Refused::Memory { why: self.said(&e) })?;
        let higher = |(job, serial): &&(String, u64)| {
            !job.is_empty() && !job.contains(char::is_whitespace) && self.advances(job, *serial) == Ok(true)
        };
        let higher: Vec<(&str, u64)> = serials
            .iter()
            .filter(higher)
            .map(|(j, n)| (j.as_str(), *n))
            .collect();
        match higher.is_empty() {
            true => Ok(()),
            false => self.raise(higher),
        }
    }

    /// What is above the highest seen of its job becomes that, on disk.
    fn raise<'a>(&mut self, serials: impl IntoIterator<Item = (&'a str, u64)>) -> Result<(), Refused> {
        let memory = |why: String| Refused::Memory { why };
        let _lock = self.lock().map_err(|e| memory(self.said(&e)))?;
        self.refresh().map_err(|e| memory(self.said(&e)))?;
        let before = self.known.clone();
        for (job, serial) in serials {
            let room = self.known.len() < MOST || self.known.contains_key(job);
            if room && self.advances(job, serial) == Ok(true) {
                self.known.insert(job.to_owned(), serial);
            }
        }
        if self.known == before {
            return Ok(());
        }
        self.write().map_err(|e| {
            self.known = before;
            memory(self.said(&e))
        })
    }

    /// Whether it is above what was seen.
    fn advances(&self, job: &str, serial: u64) -> Result<bool, Refused> {
        match self.known.get(job) {
            Some(seen) if *seen > serial => Err(Refused::Older { serial, seen: *seen }),
            Some(seen) => Ok(*seen < serial),
            None => Ok(true),
        }
    }

    fn said(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }

    fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        let lock = options.open(self.path.with_extension("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }

    fn refresh(&mut self) -> io::Result<()> {
        let found = if_there(std::fs::metadata(&self.path))?;
        if found.as_ref().is_some_and(|m| m.len() > LONGEST) {
            return Err(io::Error::other("it is too long"));
        }
        let version = found.as_ref().map(version);
        if version == self.read && (version.is_some() || self.known.is_empty()) {
            return Ok(());
        }
        let mut known = BTreeMap::new();
        if version.is_some() {
            for line in std::fs::read_to_string(&self.path)?.lines() {
                let pair = line
                    .split_once(' ')
                    .and_then(|(n, job)| Some((job, n.parse().ok()?)));
                let (job, serial) = pair.ok_or_else(|| io::Error::other("it is damaged"))?;
                known.insert(job.to_owned(), serial);
            }
        }
        // What this process has seen holds even if somebody takes the file away.
        for (job, serial) in std::mem::take(&mut self.known) {
            let known = known.entry(job).or_insert(serial);
            *known = serial.max(*known);
        }
        (self.known, self.read) = (known, version);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let text: String = self.known.iter().map(|(job, n)| format!("{n} {job}\n")).collect();
        let file = replace(&self.path, text.as_bytes())?;
        self.read = Some(version(&file.metadata()?));
        Ok(())
    }
}

fn version(of: &Metadata) -> (u64, u64, i64) {
    (of.ino(), of.len(), of.mtime_nsec() ^ (of.mtime() << 30))
}
