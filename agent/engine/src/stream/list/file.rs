//! A list in a file that grows. It is read through one descriptor, in pieces, and looked at a few times a second.

use std::fs::{File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use farmhand_core::stream::{Checkpoint, Lines, Tail};

use super::splitter::{CHUNK, Next, Splitter};
use farmhand_core::input::stream::Follow;

/// Between two looks at a file that has nothing new.
const LOOK: Duration = Duration::from_millis(250);
/// Who writes the list may be a little late with the last lines before an instant: the file is at rest for so long,
const REST: Duration = Duration::from_secs(2);
/// or so much later nobody waits any more.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Growing {
    path: String,
    follow: Follow,
    began: Instant,
    /// None until it is there.
    file: Option<File>,
    splitter: Splitter,
    /// Bytes were read up to here, and what is before it: whether they are still there.
    at: u64,
    tail: Tail,
    /// The lines before it are done, say the checkpoint.
    line: u64,
    mark: u64,
    grew: Instant,
    wake: Instant,
    /// The path shows another file, or none; since the last look.
    gone: Option<String>,
    /// The list is over: well, or not.
    over: Option<Result<(), String>>,
}

/// It is over, and why.
type Broken = String;

impl Growing {
    pub(crate) fn new(path: &str, follow: Follow, from: &Checkpoint, now: Instant) -> Self {
        Self {
            path: path.to_owned(),
            follow,
            began: now,
            file: None,
            splitter: Splitter::new(from.at, Tail::default()),
            at: from.at,
            tail: Tail::default(),
            line: from.line,
            mark: from.mark,
            grew: now,
            wake: now,
            gone: None,
            over: None,
        }
    }

    pub(crate) fn wake(&self) -> Instant {
        self.wake
    }

    pub(crate) fn waits(&self) -> Option<String> {
        let missing = self.file.is_none() && self.over.is_none();
        missing.then(|| format!("{} is not there yet", self.path))
    }

    pub(crate) fn next(&mut self, now: Instant) -> Next {
        if let Some(read) = self.splitter.next() {
            return Next::Line(read);
        }
        if self.over.is_none() && now >= self.wake {
            self.wake = now;
            if let Err(why) = self.read_on(now) {
                // Nobody knows what a half line of it was to become.
                self.splitter.lines = Lines::default();
                self.over = Some(Err(why));
            }
            if let Some(read) = self.splitter.next() {
                return Next::Line(read);
            }
        }
        match &self.over {
            None => Next::Later,
            Some(how) => match (self.splitter.finish(), how) {
                (Some(read), _) => Next::Line(read),
                (None, Ok(())) => Next::End,
                (None, Err(why)) => Next::Broken(why.clone()),
            },
        }
    }

    fn read_on(&mut self, now: Instant) -> Result<(), Broken> {
        if self.file.is_none() && !self.open(now)? {
            return Ok(());
        }
        match self.read()? {
            0 => self.at_end(now)?,
            _ => {
                self.grew = now;
                self.gone = None;
            }
        }
        Ok(())
    }

    /// Whether it is there.
    fn open(&mut self, now: Instant) -> Result<bool, Broken> {
        let path = &self.path;
        // Opening a FIFO must not wait for who writes to it.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        let file = match opened {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return self.missing(now).map(|()| false),
            Err(e) => return Err(format!("{path} cannot be read: {e}")),
        };
        let about = file
            .metadata()
            .map_err(|e| format!("{path} cannot be read: {e}"))?;
        if !about.is_file() {
            return Err(format!(
                "{path} is not a file; `command` takes what a program prints"
            ));
        }
        if about.len() < self.at {
            return Err(self.shrank(about.len()));
        }
        let mut before = vec![0; usize::try_from(self.at).unwrap_or(usize::MAX).min(Tail::LENGTH)];
        let start = self.at - before.len() as u64;
        file.read_exact_at(&mut before, start)
            .map_err(|e| format!("{path} cannot be read: {e}"))?;
        self.tail.push(&before);
        if self.tail.mark() != self.mark {
            return Err(format!(
                "{path} is another list than the one whose first {} lines are done: what is before line {} differs",
                self.line - 1,
                self.line
            ));
        }
        self.splitter.tail = self.tail.clone();
        self.file = Some(file);
        Ok(true)
    }

    fn missing(&mut self, now: Instant) -> Result<(), Broken> {
        let path = &self.path;
        if self.at > 0 {
            return Err(format!(
                "{path} has vanished; {} of its lines are done",
                self.line - 1
            ));
        }
        match self.follow {
            Follow::No => Err(format!("{path} does not exist")),
            _ if self.is_over(now) => Err(format!("{path} has not appeared until the next due instant")),
            _ => {
                self.wake = now + LOOK;
                Ok(())
            }
        }
    }

    /// Reads on, together with the bytes before: who changes a list in place is noticed.
    fn read(&mut self) -> Result<usize, Broken> {
        let Some(file) = &self.file else { return Ok(0) };
        let known = self.tail.bytes().len();
        let mut chunk = vec![0; known + CHUNK];
        let count = loop {
            match file.read_at(&mut chunk, self.at - known as u64) {
                Ok(count) => break count,
                // No end of the file.
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("{} cannot be read: {e}", self.path)),
            }
        };
        if count < known {
            return Err(self.shrank(file.metadata().map_or(0, |m| m.len())));
        }
        if &chunk[..known] != self.tail.bytes() {
            return Err(format!("{} was changed in what had been read of it", self.path));
        }
        let fresh = &chunk[known..count];
        self.tail.push(fresh);
        self.at += fresh.len() as u64;
        self.splitter.feed(fresh);
        Ok(fresh.len())
    }

    fn shrank(&self, to: u64) -> Broken {
        format!(
            "{} shrank to {to} bytes after {} of it had been read: lines may be missing",
            self.path, self.at
        )
    }

    fn at_end(&mut self, now: Instant) -> Result<(), Broken> {
        if self.follow == Follow::No || self.is_over(now) {
            self.over = Some(Ok(()));
            return Ok(());
        }
        // What was written to the old file until it was seen to be gone is read first.
        let gone = self.changed()?;
        match (&gone, &self.gone) {
            (Some(why), Some(_)) => self.over = Some(Err(why.clone())),
            (Some(_), None) => {}
            (None, _) => self.wake = now + LOOK,
        }
        self.gone = gone;
        Ok(())
    }

    /// Whether the path still shows the file that is read, as far as that can be seen.
    fn changed(&self) -> Result<Option<Broken>, Broken> {
        let path = &self.path;
        let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let Some(Ok(open)) = self.file.as_ref().map(File::metadata) else {
            return Ok(None);
        };
        match std::fs::metadata(path) {
            Ok(there) if same(&there, &open) => Ok(None),
            Ok(_) => Ok(Some(format!(
                "{path} was replaced by another file; what was in the first one is done"
            ))),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                Ok(Some(format!("{path} has vanished; what was in it is done")))
            }
            Err(e) => Err(format!("{path} cannot be looked at: {e}")),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let Follow::For { ms } = self.follow else {
            return false;
        };
        let Some(until) = self.began.checked_add(Duration::from_millis(ms)) else {
            return false;
        };
        now >= until + PATIENCE || (now >= until && now >= self.grew + REST)
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
