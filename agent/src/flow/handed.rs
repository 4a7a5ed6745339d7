//! A flow as an agent hands it to the engine that runs it inside an attempt, and what comes back of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use farmhand_common::core::definition::{Command, FlowSpec};
use farmhand_common::store::tasks::TaskEnd;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Records of one round: a bound on memory.
const ROUND: usize = 1_000;

/// On the engine's stdin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handed {
    pub flow: FlowSpec,
    /// Tasks that are not to run again.
    pub done: BTreeSet<String>,
}

/// The engine, as an attempt's command: this very binary, whatever has become of its file since.
pub fn command() -> Command {
    let words = ["/proc/self/exe", "flow", "run", "--from-run"];
    Command::Argv(words.map(str::to_owned).to_vec())
}

/// Follows the record that the engine of an attempt keeps in the attempt's run directory.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// Everything before is in the database.
    sent: u64,
    read: u64,
    pending: Vec<TaskEnd>,
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
    cpu_ms: i64,
    max_rss_bytes: i64,
    reason: Option<String>,
    blame: Vec<String>,
}

impl Follower {
    pub fn new(run_dir: &Path) -> Self {
        Self {
            path: run_dir.join("flow/record"),
            sent: 0,
            read: 0,
            pending: Vec::new(),
        }
    }

    /// Ends that are not in the database yet; empty when there is nothing new.
    ///
    /// # Errors
    /// When the record is there and cannot be read.
    pub fn pending(&mut self) -> io::Result<&[TaskEnd]> {
        if self.pending.is_empty() {
            self.read_on()?;
        }
        Ok(&self.pending)
    }

    fn read_on(&mut self) -> io::Result<()> {
        let file = match File::open(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        if file.metadata()?.len() <= self.sent {
            return Ok(());
        }
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(self.sent))?;
        self.read = self.sent;
        let mut text = Vec::new();
        while self.pending.len() < ROUND {
            text.clear();
            let length = reader.read_until(b'\n', &mut text)?;
            // A line that is still being written is read the next time.
            if text.last() != Some(&b'\n') {
                break;
            }
            self.read += length as u64;
            // The record is the job's own; what is no record is passed over.
            if let Ok(line) = serde_json::from_slice::<Line>(&text) {
                self.pending.push(line.into());
            }
        }
        if self.pending.is_empty() {
            self.sent = self.read;
        }
        Ok(())
    }

    /// What was pending is in the database.
    pub fn sent(&mut self) {
        self.pending.clear();
        self.sent = self.read;
    }
}

impl From<Line> for TaskEnd {
    fn from(line: Line) -> Self {
        let started_at = line.duration_ms.map(|ms| line.at - Duration::from_millis(ms));
        Self {
            task: line.task,
            outcome: line.outcome,
            started_at,
            ended_at: line.at,
            exit_code: line.exit_code,
            signal: line.signal,
            cpu_ms: Some(line.cpu_ms),
            max_rss_bytes: Some(line.max_rss_bytes),
            reason: line.reason,
            blame: line.blame,
        }
    }
}
