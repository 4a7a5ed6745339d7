//! What comes back of an engine while it runs: the record that it keeps in the run directory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use farmhand_store::tasks::TaskEnd;
use jiff::Timestamp;
use serde::Deserialize;

use farmhand_warden_client::wire::AttemptId;
use farmhand_warden_client::{EngineRecord, Paths, helper};

/// Records of one round: a bound on memory.
const ROUND: usize = 1_000;
const ROUND_BYTES: u64 = 1 << 20;
/// Bytes that are looked through in a round when none of them are a record.
const ROUND_MOST: u64 = 16 << 20;
/// Bytes of a line; no engine writes a longer one.
const MAX_LINE: u64 = 4 << 20;
/// Bytes of a name; it is part of a key.
const MAX_NAME: usize = 1_000;
const MAX_BLAME: usize = 1_000;
/// Of a task that was executed, or skipped or cancelled instead.
const OUTCOMES: [&str; 5] = ["succeeded", "failed", "timed_out", "cancelled", "skipped"];

/// Follows the record that the engine of an attempt keeps in the attempt's run directory.
#[derive(Debug)]
pub(crate) struct Follower<T> {
    run_dir: PathBuf,
    record: EngineRecord,
    of: Option<AttemptId>,
    /// As a helper has handed it over: a job's directory is closed to an agent without rights.
    handed: Option<File>,
    /// What the database takes of a line of it.
    parse: fn(&[u8]) -> Option<T>,
    /// Everything before is in the database.
    sent: u64,
    read: u64,
    /// What comes next is the rest of a line that was too long.
    in_long_line: bool,
    pending: Vec<T>,
}

/// The keys of a record's line that go to the database.
#[derive(Deserialize)]
struct Line {
    task: String,
    at: Timestamp,
    outcome: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    duration_ms: Option<u64>,
    cpu_ms: Option<i64>,
    max_rss_bytes: Option<i64>,
    reason: Option<String>,
    blame: Vec<String>,
}

/// An ended task, of a line of a flow's record.
pub(crate) fn task_end(text: &[u8]) -> Option<TaskEnd> {
    serde_json::from_slice::<Line>(text).ok()?.end()
}

impl<T> Follower<T> {
    pub(super) fn of(
        paths: &Paths,
        id: AttemptId,
        record: EngineRecord,
        parse: fn(&[u8]) -> Option<T>,
    ) -> Self {
        Self {
            of: Some(id),
            ..Self::new(&paths.run_dir(id), record, parse)
        }
    }

    /// The record in a run directory that this process can read.
    pub(super) fn new(run_dir: &Path, record: EngineRecord, parse: fn(&[u8]) -> Option<T>) -> Self {
        Self {
            run_dir: run_dir.to_owned(),
            record,
            of: None,
            handed: None,
            parse,
            sent: 0,
            read: 0,
            in_long_line: false,
            pending: Vec::new(),
        }
    }

    /// Ends that are not in the database yet; empty when there is nothing new.
    pub(super) fn pending(&mut self) -> io::Result<&[T]> {
        if self.pending.is_empty() {
            self.read_on()?;
        }
        Ok(&self.pending)
    }

    fn open(&mut self) -> io::Result<Option<File>> {
        if let Some((helper, id)) = helper::here().zip(self.of) {
            if self.handed.is_none() {
                self.handed = helper.record(id, self.record)?;
            }
            return self.handed.as_ref().map(File::try_clone).transpose();
        }
        self.record.open(&self.run_dir)
    }

    fn read_on(&mut self) -> io::Result<()> {
        let Some(file) = self.open()? else { return Ok(()) };
        if file.metadata()?.len() <= self.sent {
            return Ok(());
        }
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(self.sent))?;
        self.read = self.sent;
        let mut text = Vec::new();
        let full =
            |pending: &[T], bytes| !pending.is_empty() && (pending.len() >= ROUND || bytes >= ROUND_BYTES);
        // The record is the job's own; what is no record is passed over, and not all at once.
        while !full(&self.pending, self.read - self.sent) && self.read - self.sent < ROUND_MOST {
            text.clear();
            let length = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut text)? as u64;
            let ended = text.last() == Some(&b'\n');
            if !ended && length < MAX_LINE && !self.in_long_line {
                // It is still being written, and read the next time.
                break;
            }
            if length == 0 {
                break;
            }
            self.read += length;
            if ended && !self.in_long_line {
                self.pending.extend((self.parse)(&text));
            }
            self.in_long_line = !ended;
        }
        if self.pending.is_empty() {
            self.sent = self.read;
        }
        Ok(())
    }

    /// What was pending is in the database.
    pub(super) fn sent(&mut self) {
        self.pending.clear();
        self.sent = self.read;
    }
}

impl Line {
    /// What the database takes. The record lies where the job's processes can write: one bad line must not keep
    /// the others, or the end of the run, from being written down.
    fn end(self) -> Option<TaskEnd> {
        let known = OUTCOMES.contains(&&*self.outcome);
        let named = !self.task.is_empty() && self.task.len() <= MAX_NAME && !self.task.contains('\0');
        if !known || !named || self.at.as_second() < 0 {
            return None;
        }
        let lasted = self.duration_ms.map(Duration::from_millis);
        Some(TaskEnd {
            started_at: lasted
                .and_then(|d| self.at.checked_sub(d).ok())
                .filter(|at| at.as_second() >= 0),
            task: self.task,
            outcome: self.outcome,
            ended_at: self.at,
            exit_code: self.exit_code,
            signal: self.signal,
            cpu_ms: self.cpu_ms,
            max_rss_bytes: self.max_rss_bytes,
            reason: self.reason.map(storable),
            blame: self.blame.into_iter().take(MAX_BLAME).map(storable).collect(),
        })
    }
}

/// As much of a text as is kept, and nothing that PostgreSQL refuses.
pub(super) fn storable(text: String) -> String {
    text.chars().filter(|c| *c != '\0').take(MAX_NAME).collect()
}

/// PostgreSQL's text has no NUL.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let mut line = serde_json::json!({
            "event": "end", "task": "a", "at": "2026-11-21T10:00:00Z", "outcome": "succeeded", "exit_code": 0,
            "signal": null, "duration_ms": 5, "cpu_ms": null, "max_rss_bytes": null, "reason": null, "blame": [],
        });
        change(&mut line);
        format!("{line}\n")
    }

    #[test]
    fn what_the_database_would_refuse_is_passed_over_and_the_rest_is_told() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("flow")).expect("a directory");
        let bad = [
            line(|l| l["outcome"] = "splendid".into()),
            line(|l| l["task"] = "a\0b".into()),
            line(|l| l["task"] = "n".repeat(5_000).into()),
            line(|l| l["at"] = "-009000-01-01T00:00:00Z".into()),
            "{\"task\":\n".to_owned(),
            "\u{fffd}\n".to_owned(),
        ];
        let odd = line(|l| {
            l["task"] = "odd".into();
            l["reason"] = "a\0b".repeat(5_000).into();
            l["duration_ms"] = u64::MAX.into();
        });
        let text = bad.concat() + &odd + &line(|_| {});
        std::fs::write(dir.path().join("flow/record"), text).expect("a record");
        let mut follower = Follower::new(dir.path(), EngineRecord::Tasks, task_end);
        let ends = follower.pending().expect("it can be read");
        let names: Vec<&str> = ends.iter().map(|e| e.task.as_str()).collect();
        assert_eq!(names, ["odd", "a"]);
        assert_eq!(ends[0].started_at, None);
        assert!(
            ends[0]
                .reason
                .as_ref()
                .is_some_and(|r| r.len() == MAX_NAME && !r.contains('\0'))
        );
        follower.sent();
        assert!(follower.pending().expect("it can be read").is_empty());
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_what_follows_it_is_told() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("flow")).expect("a directory");
        let record = dir.path().join("flow/record");
        std::fs::write(&record, line(|_| {})).expect("a record");
        let mut file = File::options().append(true).open(&record).expect("the record");
        file.set_len(100 << 20).expect("a hole in it");
        file.write_all(format!("\n{}", line(|l| l["task"] = "after".into())).as_bytes())
            .expect("more of it");
        let mut follower = Follower::new(dir.path(), EngineRecord::Tasks, task_end);
        let mut told = Vec::new();
        for _round in 0..20 {
            let ends = follower.pending().expect("it can be read");
            told.extend(ends.iter().map(|e| e.task.clone()));
            follower.sent();
        }
        assert_eq!(told, ["a", "after"]);
    }

    #[test]
    fn a_record_that_is_a_fifo_or_a_link_is_not_waited_for_and_not_followed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("flow")).expect("a directory");
        let record = dir.path().join("flow/record");
        let mut follower = Follower::new(dir.path(), EngineRecord::Tasks, task_end);
        assert!(follower.pending().expect("there is none yet").is_empty());
        rustix::fs::mkfifoat(rustix::fs::CWD, &record, 0o600.into()).expect("a FIFO");
        assert!(follower.pending().is_err());
        std::fs::remove_file(&record).expect("it goes");
        std::os::unix::fs::symlink("/etc/passwd", &record).expect("a link");
        assert!(follower.pending().is_err());
    }
}
