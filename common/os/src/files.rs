//! Files that may not be there, or be there already.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// `None`: there is no such file.
pub fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// It is no mistake that there is one already.
pub fn if_missing(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// A file that is whole at any time, also after a loss of power: the text before or this one. For its owner alone.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<File> {
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(file)
}
