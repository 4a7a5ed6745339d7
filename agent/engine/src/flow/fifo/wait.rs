//! Waiting for a name from outside the engine.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, openat};

use super::names::{Status, file_name};
use super::without_engine;

const LOOK: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(10);

/// Why waiting for a name came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    #[error("nobody provides `{0}`")]
    Unknown(String),
    #[error("`{0}` has not ended in time")]
    TimedOut(String),
    #[error("{} is not a status", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{name}` cannot be waited for")]
    Io { name: String, source: io::Error },
}

/// How a name ended, if it has.
pub fn status(deps: &Path, name: &str) -> Result<Option<Status>, WaitError> {
    let path = deps.join(".status").join(file_name(name));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(WaitError::Unreadable { path, source }),
    };
    let (code, rest) = text.trim_end().split_once(' ').unwrap_or((text.trim_end(), ""));
    match code.parse() {
        Ok(code) => Ok(Some(Status::new(code, rest))),
        Err(e) => {
            let source = io::Error::new(io::ErrorKind::InvalidData, e);
            Err(WaitError::Unreadable { path, source })
        }
    }
}

/// Sleeps until a name has ended, at the latest until `deadline`.
/// Errors: When nobody provides it, the time is over, or the directory is out of reach.
pub fn wait(deps: &Path, name: &str, deadline: Option<Instant>) -> Result<Status, WaitError> {
    let path = deps.join(file_name(name));
    let failed = |source: io::Error| WaitError::Io {
        name: name.to_owned(),
        source,
    };
    // Who marks may be killed between its steps, and no engine tells of it.
    let look = without_engine::is_without_engine(deps).then_some(LOOK);
    loop {
        if let Some(status) = status(deps, name)? {
            return Ok(status);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fifo = match openat(CWD, &path, flags, Mode::empty()) {
            Ok(fifo) => fifo,
            Err(rustix::io::Errno::NOENT) => return Err(WaitError::Unknown(name.to_owned())),
            Err(e) => return Err(failed(e.into())),
        };
        // A status written before the opening is seen here; one written later is followed by a pulse, and a
        // writer that came and went since the opening is a hang-up however short it stayed.
        if let Some(status) = status(deps, name)? {
            return Ok(status);
        }
        let stat = rustix::fs::fstat(&fifo).map_err(|e| failed(e.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
            if look.is_some() && deadline.is_none_or(|d| Instant::now() < d) {
                // It is about to be waited for again.
                std::thread::sleep(SOON);
                continue;
            }
            let source = io::Error::new(io::ErrorKind::InvalidData, "not a FIFO, and it has no status");
            return Err(failed(source));
        }
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let left = [left, look].into_iter().flatten().min();
        let time: Option<Timespec> = left.and_then(|left| left.try_into().ok());
        let mut fds = [PollFd::new(&fifo, PollFlags::IN)];
        match poll(&mut fds, time.as_ref()) {
            Ok(0) if deadline.is_some_and(|d| d <= Instant::now()) => {
                return Err(WaitError::TimedOut(name.to_owned()));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(failed(e.into())),
        }
    }
}
