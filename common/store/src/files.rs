//! Files of secrets and certificates, read again for each connection.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Reads a file that this process could read only before it gave its rights away.
pub type AsRoot = fn(&Path) -> io::Result<String>;

#[derive(Debug)]
pub(crate) enum Unfit {
    /// Others may read it.
    Open,
    Io(io::Error),
}

pub(crate) fn content(path: &Path, as_root: Option<AsRoot>) -> io::Result<Vec<u8>> {
    match (std::fs::read(path), as_root) {
        (Err(e), Some(read)) if e.kind() == io::ErrorKind::PermissionDenied => {
            read(path).map(String::into_bytes)
        }
        (read, _) => read,
    }
}

/// The same of a file that must be closed to others: none of the bits that its owner is told may be in its mode.
pub(crate) fn secret(
    path: &Path,
    closed_to: impl Fn(u32) -> u32,
    as_root: Option<AsRoot>,
) -> Result<Vec<u8>, Unfit> {
    match std::fs::metadata(path) {
        Ok(about) if about.mode() & closed_to(about.uid()) != 0 => return Err(Unfit::Open),
        // In a directory that lets nobody but root in.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied && as_root.is_some() => {}
        Err(e) => return Err(Unfit::Io(e)),
        Ok(_) => {}
    }
    content(path, as_root).map_err(Unfit::Io)
}
