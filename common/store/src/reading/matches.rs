//! Lines of output that have a text: of one run, or of a job's last ones. There is no index: each end of a run would pay
//! for it. So the output is read, the newest run first, within bounds of runs, bytes, matches and time.

use std::time::{Duration, Instant};

use farmhand_core::text::ansi;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::LIMIT;
use super::logs::log_state;
use crate::db::{Db, stmt};
use crate::error::StoreError;

/// Runs that are searched, at most.
pub const MOST_RUNS: i64 = 1_000;
/// Matches that are listed, at most.
pub const MOST_MATCHES: usize = 1_000;
/// Characters of the text that is sought, at most.
pub const MOST_SOUGHT: usize = 256;
/// Runs that one statement looks at, and rows that it reads; a row has up to 64 KiB.
const RUNS: usize = 64;
const ROWS: i64 = 64;
/// A longer line is looked at in pieces of this size.
const LONGEST_LINE: usize = 256 << 10;
/// Characters of a line that are shown, and so many of them before the match.
const SHOWN: usize = 400;
const BEFORE: usize = 80;

/// What is sought, and within which bounds.
#[derive(Clone, Debug)]
pub struct Sought {
    /// A part of a line as it is shown: without colours and other escape sequences.
    pub text: String,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// Of these attempts only; of all when it is left out.
    pub attempt: Option<i32>,
    /// Matches wanted, at most [`MOST_MATCHES`].
    pub matches: usize,
    /// Bytes that are read.
    pub bytes: u64,
    pub time: Duration,
}

impl Sought {
    /// A text, within the usual bounds.
    /// Errors: When it is empty, longer than [`MOST_SOUGHT`] characters, or more than one line.
    pub fn new(text: &str, ignore_case: bool) -> Result<Self, StoreError> {
        if text.is_empty() || text.contains('\n') || text.chars().count() > MOST_SOUGHT {
            return Err(StoreError::Refused(format!(
                "the text to find has 1 to {MOST_SOUGHT} characters, on one line"
            )));
        }
        Ok(Self {
            text: text.to_owned(),
            ignore_case,
            attempt: None,
            matches: 100,
            bytes: 256 << 20,
            time: LIMIT,
        })
    }
}

/// A line that has the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogMatch {
    /// The run that wrote it.
    pub run_id: i64,
    /// The attempt that wrote it.
    pub attempt: i32,
    /// Its number in the attempt's stored output, from 1.
    pub line: i64,
    /// What is shown of it: of a long line the part around the first match.
    pub text: String,
}

/// Why a search ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchCut {
    /// As many matches as were wanted were found.
    Matches,
    /// The bound on the bytes read was reached.
    Bytes,
    /// The bound on the time was reached.
    Time,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogMatches {
    /// The newest run first; the lines of a run in their order.
    pub items: Vec<LogMatch>,
    /// Runs that were searched.
    pub runs: i64,
    /// Bytes of output that were searched.
    pub bytes: i64,
    /// Bytes that these runs wrote and the database does not have (`output.keep`): they were not searched.
    pub not_kept: i64,
    /// Why the search ended early; null when it did not.
    #[schema(required)]
    pub cut: Option<SearchCut>,
    /// Of a job's runs: search on with those before this one; null when there are none, and for one run.
    #[schema(required)]
    pub before: Option<i64>,
}

/// Searches the output of a run; None when there is no such run.
pub async fn run_matches(db: &Db, run_id: i64, sought: &Sought) -> Result<Option<LogMatches>, StoreError> {
    if log_state(db, run_id, None).await?.is_none() {
        return Ok(None);
    }
    let mut found = search(db, &[run_id], sought).await?;
    found.before = None;
    Ok(Some(found))
}

/// Searches the output of the last `runs` runs of a job, or of the last ones before the run `before`.
pub async fn job_matches(
    db: &Db,
    job: &str,
    before: Option<i64>,
    runs: i64,
    sought: &Sought,
) -> Result<LogMatches, StoreError> {
    let limit = runs.clamp(1, MOST_RUNS);
    let params = [
        (&job as _, Type::TEXT),
        (&before as _, Type::INT8),
        (&limit as _, Type::INT8),
    ];
    let rows: Vec<(i64,)> = db.rows(stmt!("reading_job_runs"), &params).await?;
    let ids: Vec<i64> = rows.into_iter().map(|(run_id,)| run_id).collect();
    let full = i64::try_from(ids.len()) == Ok(limit);
    let mut found = search(db, &ids, sought).await?;
    if found.before.is_none() && full {
        found.before = ids.last().copied();
    }
    Ok(found)
}

/// `before` of the answer is the last run that was looked at when the search was cut.
async fn search(db: &Db, runs: &[i64], sought: &Sought) -> Result<LogMatches, StoreError> {
    let begun = Instant::now();
    let mut finder = Finder::new(sought);
    let (mut todo, mut after) = (runs, (0_i32, -1_i64));
    let mut cut = None;
    while cut.is_none() && !todo.is_empty() {
        let some = &todo[..todo.len().min(RUNS)];
        let params = [
            (&some as _, Type::INT8_ARRAY),
            (&sought.attempt as _, Type::INT4),
            (&after.0 as _, Type::INT4),
            (&after.1 as _, Type::INT8),
            (&ROWS as _, Type::INT8),
        ];
        let rows = db.raw(stmt!("reading_output"), &params).await?;
        for row in &rows {
            let bad = |e| StoreError::Decode {
                op: "reading_output",
                message: crate::error::chain(&e),
            };
            let (run_id, attempt) = (
                row.try_get("run_id").map_err(bad)?,
                row.try_get("attempt").map_err(bad)?,
            );
            let seq: i64 = row.try_get("seq").map_err(bad)?;
            finder.row((run_id, attempt), seq, row.try_get("chunk").map_err(bad)?);
            after = (attempt, seq);
            if finder.is_full() {
                break;
            }
        }
        if i64::try_from(rows.len()) == Ok(ROWS) || finder.is_full() {
            // The last run may have more.
            let last = finder.of.map(|(run_id, _)| run_id);
            let done = todo.iter().position(|run| Some(*run) == last).unwrap_or(0);
            todo = &todo[done..];
        } else {
            todo = &todo[some.len()..];
            after = (0, -1);
        }
        cut = if finder.is_full() {
            Some(SearchCut::Matches)
        } else if todo.is_empty() {
            None
        } else if finder.found.bytes.unsigned_abs() >= sought.bytes {
            Some(SearchCut::Bytes)
        } else if begun.elapsed() >= sought.time {
            Some(SearchCut::Time)
        } else {
            None
        };
        // What runs beside it has its turn.
        tokio::task::yield_now().await;
    }
    finder.end();
    let mut found = finder.found;
    found.items.truncate(sought.matches);
    found.cut = cut;
    // A run that was cut counts as looked at: who searches on gets on.
    let looked = runs.len() - todo.len() + usize::from(cut.is_some() && !todo.is_empty() && after != (0, -1));
    found.runs = i64::try_from(looked).unwrap_or(i64::MAX);
    found.before = cut.and_then(|_| runs.get(looked.checked_sub(1)?)).copied();
    Ok(found)
}

/// Finds lines in rows of output as they come.
struct Finder<'a> {
    sought: &'a Sought,
    /// As it is compared.
    needle: String,
    /// Run and attempt of the rows that come now.
    of: Option<(i64, i32)>,
    /// Where the next row begins when nothing is left out.
    next: i64,
    /// The number of the line that `rest` begins.
    line: i64,
    /// A line that has begun.
    rest: Vec<u8>,
    found: LogMatches,
}

impl<'a> Finder<'a> {
    fn new(sought: &'a Sought) -> Self {
        let needle = match sought.ignore_case {
            true => sought.text.to_lowercase(),
            false => sought.text.clone(),
        };
        Self {
            sought,
            needle,
            of: None,
            next: 0,
            line: 1,
            rest: Vec::new(),
            found: LogMatches::default(),
        }
    }

    fn is_full(&self) -> bool {
        self.found.items.len() >= self.sought.matches.clamp(1, MOST_MATCHES)
    }

    fn row(&mut self, of: (i64, i32), seq: i64, bytes: &[u8]) {
        if self.of != Some(of) {
            self.end();
            (self.of, self.next, self.line) = (Some(of), 0, 1);
        }
        if seq < self.next {
            // Stored twice.
            return;
        }
        if seq > self.next {
            // No text goes on behind what is not there.
            self.end();
            self.found.not_kept += seq - self.next;
        }
        let length = i64::try_from(bytes.len()).unwrap_or(0);
        self.next = seq + length;
        self.found.bytes += length;
        match bytes.iter().rposition(|b| *b == b'\n') {
            Some(at) => {
                self.rest.extend_from_slice(&bytes[..=at]);
                self.end();
                self.rest.extend_from_slice(&bytes[at + 1..]);
            }
            None => self.rest.extend_from_slice(bytes),
        }
        if self.rest.len() > LONGEST_LINE {
            self.end();
        }
    }

    /// Looks at what has come and was not looked at.
    fn end(&mut self) {
        let lines = std::mem::take(&mut self.rest);
        let Some((run_id, attempt)) = self.of.filter(|_| !lines.is_empty()) else {
            return;
        };
        let count = |bytes: &[u8]| i64::try_from(bytes.iter().filter(|b| **b == b'\n').count()).unwrap_or(0);
        if !self.compared(&shown(&lines)).contains(&self.needle) {
            self.line += count(&lines);
            return;
        }
        for line in lines.split_inclusive(|b| *b == b'\n') {
            let text = shown(line);
            let text = text.trim_end_matches('\n');
            if let Some(at) = self.compared(text).find(&self.needle)
                && !self.is_full()
            {
                self.found.items.push(LogMatch {
                    run_id,
                    attempt,
                    line: self.line,
                    text: around(text, self.compared(text)[..at].chars().count()),
                });
            }
            self.line += count(line);
        }
    }

    fn compared<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        match self.sought.ignore_case {
            true => text.to_lowercase().into(),
            false => text.into(),
        }
    }
}

/// The text as a page shows it. Most output has nothing that is left out, and is not read twice.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.iter().any(|b| matches!(b, 0x1b | b'\r')) => text.to_owned(),
        _ => ansi::plain(bytes),
    }
}

/// A line, or of a long one the part around the character `at`.
fn around(line: &str, at: usize) -> String {
    let skip = if line.chars().count() > SHOWN {
        at.saturating_sub(BEFORE)
    } else {
        0
    };
    let mut text: String = line.chars().skip(skip).take(SHOWN).collect();
    // Controls that no escape sequence brought here.
    if text.chars().any(farmhand_core::text::sanitize::steers) {
        text = ansi::plain(text.as_bytes());
    }
    if skip > 0 {
        text.insert(0, '…');
    }
    if line.chars().count() > skip + SHOWN {
        text.push('…');
    }
    text
}

#[cfg(test)]
#[path = "matches_tests.rs"]
mod tests;
