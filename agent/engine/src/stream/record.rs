//! What an engine writes down about lines, and what its agent reads of it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use farmhand_core::stream::{ItemEnd, MAX_LINE};
use farmhand_os::files::if_there;

use crate::journal::Journal;

/// In the run directory.
pub(super) const DIR: &str = "stream";
const OUTCOMES: [&str; 4] = ["succeeded", "failed", "timed_out", "refused"];
/// Of a reason.
const MAX_TEXT: usize = 1_000;
/// Of the output of a line's last try.
pub(crate) const MAX_OUTPUT: usize = 16 << 10;

/// The engine's directory: its record, and the output of what runs.
#[derive(Debug)]
pub(super) struct Place {
    dir: PathBuf,
    record: Journal,
}

impl Place {
    pub(super) fn make(run_dir: &Path) -> io::Result<Self> {
        let dir = run_dir.join(DIR);
        DirBuilder::new().mode(0o700).recursive(true).create(&dir)?;
        let record = Journal::open(&dir.join("record"))?;
        Ok(Self { dir, record })
    }

    pub(super) fn write(&mut self, end: &ItemEnd) -> io::Result<()> {
        self.record.add(end)
    }

    /// An empty file for the output of a worker; whoever still writes to the one before writes to nobody.
    pub(super) fn output(&self, worker: usize) -> io::Result<File> {
        let path = self.dir.join(format!("output.{worker}"));
        if_there(std::fs::remove_file(&path))?;
        OpenOptions::new()
            .create_new(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(path)
    }
}

/// A line of the record, as far as the database takes it. It lies where the job's processes can write: one bad
/// line must not keep the others, or the end of the run, from being written down.
pub fn end(text: &[u8]) -> Option<ItemEnd> {
    let read: ItemEnd = serde_json::from_slice(text).ok()?;
    let bytes = |text: &str, most: usize| {
        text.len().is_multiple_of(2) && text.len() <= 2 * most && text.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let right = read.item > 0
        && read.failures >= 0
        && OUTCOMES.contains(&read.outcome.as_str())
        && read.ended_at.as_second() >= 0
        && bytes(&read.line, MAX_LINE)
        && read
            .output
            .as_ref()
            .is_none_or(|output| bytes(output, MAX_OUTPUT));
    right.then(|| ItemEnd {
        started_at: read.started_at.filter(|at| at.as_second() >= 0),
        reason: read
            .reason
            .map(|why| why.chars().filter(|c| *c != '\0').take(MAX_TEXT).collect()),
        ..read
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(change: impl FnOnce(&mut ItemEnd)) -> Vec<u8> {
        let mut end = ItemEnd {
            item: 7,
            outcome: "failed".to_owned(),
            failures: 3,
            line: hex::encode(b"a line"),
            started_at: None,
            ended_at: "2026-11-21T10:00:00Z".parse().expect("a time"),
            exit_code: Some(1),
            signal: None,
            reason: None,
            output: Some(hex::encode(b"no\0")),
        };
        change(&mut end);
        serde_json::to_vec(&end).expect("plain data")
    }

    #[test]
    fn what_the_database_would_refuse_is_passed_over_and_the_rest_is_told() {
        assert!(end(&line(|_| {})).is_some());
        let bad = [
            line(|e| e.item = 0),
            line(|e| e.outcome = "splendid".to_owned()),
            line(|e| e.line = "xyz0".to_owned()),
            line(|e| e.line = "abc".to_owned()),
            line(|e| e.output = Some("00".repeat(MAX_OUTPUT + 1))),
            line(|e| e.ended_at = jiff::Timestamp::MIN),
            b"{\"item\":".to_vec(),
        ];
        for text in bad {
            assert!(end(&text).is_none(), "{}", String::from_utf8_lossy(&text));
        }
        let odd = end(&line(|e| e.reason = Some("a\0b".repeat(5_000)))).expect("it is taken");
        assert!(
            odd.reason
                .is_some_and(|why| why.len() == MAX_TEXT && !why.contains('\0'))
        );
    }
}
