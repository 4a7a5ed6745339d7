//! How far an attempt's lines have been sent, for the agent that comes next.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::helper;
use crate::paths::readable_file;
use crate::wire::AttemptId;

/// In an attempt's directory.
const FILE: &str = "run-log";

/// Positions are those of the output files: both streams counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentSoFar {
    /// Nothing before this is needed any more.
    pub resume: u64,
    /// Of stdout, stderr and the agent's own lines: what lies before is sent.
    pub streams: [u64; 3],
}

/// The file: these four numbers, big-endian.
pub struct SentFile {
    dir: PathBuf,
    of: AttemptId,
    written: SentSoFar,
}

impl SentFile {
    /// That of an attempt's directory; nothing is read or written yet.
    pub fn of(attempt_dir: &Path, of: AttemptId) -> Self {
        Self {
            dir: attempt_dir.to_owned(),
            of,
            written: SentSoFar::default(),
        }
    }

    /// Nothing, if there is no file or it makes no sense: better twice than never.
    pub fn read(&self) -> SentSoFar {
        let bytes = std::fs::read(self.dir.join(FILE)).unwrap_or_default();
        let number = |n: usize| -> Option<u64> {
            let at = bytes.get(n * 8..)?;
            at.first_chunk().map(|eight| u64::from_be_bytes(*eight))
        };
        let all = || {
            Some(SentSoFar {
                resume: number(0)?,
                streams: [number(1)?, number(2)?, number(3)?],
            })
        };
        all().unwrap_or_default()
    }

    /// Without it lines come twice after a takeover, so that a failure is no trouble to anybody.
    pub fn write(&mut self, sent: SentSoFar) {
        if sent == self.written {
            return;
        }
        let numbers = [sent.resume, sent.streams[0], sent.streams[1], sent.streams[2]];
        let kept = match helper::here() {
            Some(helper) => helper.mark(self.of, numbers),
            None => keep(&self.dir, numbers),
        };
        match kept {
            Ok(()) => self.written = sent,
            Err(error) => tracing::debug!("{}: {error}", self.dir.join(FILE).display()),
        }
    }
}

/// Writes these numbers into the attempt's directory.
pub fn keep(attempt_dir: &Path, numbers: [u64; 4]) -> io::Result<()> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW);
    let file = options.open(attempt_dir.join(FILE))?;
    readable_file(attempt_dir, &file)?;
    // In one write: a kill leaves the old numbers or the new ones.
    file.write_all_at(&bytes, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_rubbish_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let id = AttemptId {
            run_id: 1,
            attempt: 1,
        };
        let mut file = SentFile::of(dir.path(), id);
        assert_eq!(file.read(), SentSoFar::default());
        let sent = SentSoFar {
            resume: 3,
            streams: [9, 5, u64::MAX],
        };
        file.write(sent);
        assert_eq!(SentFile::of(dir.path(), id).read(), sent);
        std::fs::write(dir.path().join("run-log"), "torn").unwrap();
        assert_eq!(file.read(), SentSoFar::default());
    }
}
