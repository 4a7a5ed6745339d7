//! What an engine writes down line by line, for its agent and for who goes on after it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use serde::Serialize;

/// A file of lines that only grows. What a full disk or a crash leaves of a line takes no other line with it.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    /// Its last line has no end.
    torn: bool,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        let mut last = [b'\n'];
        if let Some(at) = file.metadata()?.len().checked_sub(1) {
            file.read_exact_at(&mut last, at)?;
        }
        Ok(Self {
            file,
            torn: last != [b'\n'],
        })
    }

    pub(crate) fn add(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = Vec::new();
        if self.torn {
            text.push(b'\n');
        }
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
        let written = self.file.write_all(&text);
        self.torn = written.is_err();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_after_one_that_was_cut_short_stands_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        let mut journal = Journal::open(&path).unwrap();
        journal.add(&1).unwrap();
        drop(journal);
        let crashed = |text: &[u8]| {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(text).unwrap();
        };
        crashed(b"{\"task\":");
        let mut journal = Journal::open(&path).unwrap();
        journal.add(&2).unwrap();
        journal.add(&3).unwrap();

        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut journal.file, full);
        assert!(journal.add(&4).is_err());
        crashed(b"4");
        journal.file = file;
        journal.add(&5).unwrap();
        journal.add(&6).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "1\n{\"task\":\n2\n3\n4\n5\n6\n");
    }
}
