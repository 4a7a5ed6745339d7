//! What an engine writes down in its run directory, and how it is opened.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, openat};
use serde::{Deserialize, Serialize};

/// A record that an engine keeps in its run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineRecord {
    Tasks,
    Lines,
}

impl EngineRecord {
    /// Directory and file.
    fn parts(self) -> [&'static str; 2] {
        match self {
            EngineRecord::Tasks => ["flow", "record"],
            EngineRecord::Lines => ["stream", "record"],
        }
    }

    /// Relative to the run directory.
    pub fn path(self) -> PathBuf {
        self.parts().iter().collect()
    }

    /// Opens it for reading; `None` while there is none. The run directory is the job's: what lies there is opened only if it
    /// is a file and the job's too, through no link and without waiting, so that nobody is shown a file of root's by it, or
    /// held up by a pipe.
    /// Errors: When it is there and cannot be opened, or is something else.
    pub fn open(self, run_dir: &Path) -> io::Result<Option<File>> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let found = (|| -> rustix::io::Result<_> {
            let [inner, name] = self.parts();
            let dir = OFlags::PATH | OFlags::DIRECTORY;
            let run_dir = open(run_dir, flags | dir, Mode::empty())?;
            let inner = openat(&run_dir, inner, flags | dir, Mode::empty())?;
            let file = openat(&inner, name, flags | OFlags::RDONLY, Mode::empty())?;
            Ok((File::from(run_dir), File::from(file)))
        })();
        let (run_dir, file) = match found {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            other => other?,
        };
        let (owner, meta) = (run_dir.metadata()?, file.metadata()?);
        if !meta.is_file() || meta.uid() != owner.uid() {
            return Err(io::Error::other("what is there is no record of the job's"));
        }
        Ok(Some(file))
    }
}
