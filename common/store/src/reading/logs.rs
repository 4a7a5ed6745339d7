//! A stretch of an attempt's output, by byte or from its end.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use crate::LogStream;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::logs::{LogChunk, read_log, read_log_from};
use farmhand_core::run::RunState;

/// Bytes of one answer, at most.
pub const MOST_BYTES: usize = 256 << 10;
/// Rows of output that are read at a time, the first time and at most. A row has up to 64 KiB, and of a slow writer a line.
const ROWS: (i64, i64) = (4, 256);
/// How often they are read for one answer: enough for rows of one byte each, since the last lines come last.
const ROUNDS: usize = MOST_BYTES / 256 + 3;

/// Where a stretch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// At this byte of everything the attempt wrote.
    From(i64),
    /// So many bytes before the end of what is stored.
    Bytes(i64),
    /// So many lines before the end, as far as they are in the last 256 KiB.
    Lines(usize),
}

/// A piece that was written to one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LogPiece {
    /// Position of its first byte in everything that the attempt wrote to both streams; a jump is what was dropped.
    pub at_byte: i64,
    /// The stream that it was written to.
    pub stream: LogStream,
    /// By the node's clock.
    pub at: Timestamp,
    /// Bytes that are no UTF-8 are shown as U+FFFD.
    pub text: String,
    /// Of the raw bytes.
    pub bytes: i64,
}

/// A stretch of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LogRange {
    /// The run's number.
    pub run_id: i64,
    /// Which attempt of the run.
    pub attempt: i32,
    /// In the order in which they were written.
    pub pieces: Vec<LogPiece>,
    /// The byte at which the next stretch begins.
    pub next: i64,
    /// The end of what is stored now.
    pub end: i64,
    /// The run has ended and all that will ever be stored is stored: reading on from `next` to `end` gives the rest.
    pub complete: bool,
    /// Bytes of the last attempt that are not stored (`output.keep`); its node keeps up to `output.local`.
    pub dropped: i64,
}

/// How a run and its output stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct LogState {
    /// How far it has come, or how it ended.
    pub state: RunState,
    /// The last or present attempt.
    pub attempt: i32,
    /// Bytes of it that are not stored.
    pub dropped: i64,
    /// The end of what is stored of the attempt that was asked for.
    pub end: i64,
}

/// How a run stands, and how much is stored of the output of an attempt (the last or present one when none is named).
/// None when there is no such run.
pub async fn log_state(db: &Db, run_id: i64, attempt: Option<i32>) -> Result<Option<LogState>, StoreError> {
    db.row(
        stmt!("reading_log"),
        &[(&run_id, Type::INT8), (&attempt, Type::INT4)],
    )
    .await
}

/// A stretch of at most `most` bytes (256 KiB) of an attempt's output, of the last attempt when none is named. None
/// when there is no such run or attempt.
///
/// The state is read before the output: when it is final, the output read then is all there is.
pub async fn log(
    db: &Db,
    run_id: i64,
    attempt: Option<i32>,
    tail: Tail,
    most: usize,
) -> Result<Option<LogRange>, StoreError> {
    let Some(run) = log_state(db, run_id, attempt).await? else {
        return Ok(None);
    };
    let attempt = attempt.unwrap_or(run.attempt);
    if attempt < 0 || attempt > run.attempt {
        return Ok(None);
    }
    let most = most.clamp(1, MOST_BYTES);
    let size = i64::try_from(most).unwrap_or(i64::MAX);
    let end = run.end;
    let from = match tail {
        Tail::From(byte) => byte.max(0),
        Tail::Bytes(bytes) => end.saturating_sub(bytes.clamp(0, size)).max(0),
        Tail::Lines(_) => end.saturating_sub(size).max(0),
    };
    let mut chunks = cut(stretch(db, (run_id, attempt), from, end, most).await?, from, most);
    if let Tail::Lines(lines) = tail {
        chunks = last_lines(chunks, lines);
    }
    let mut chunks = join_characters(chunks);
    let over = run.state.is_final() || attempt < run.attempt;
    let upto = |chunks: &[LogChunk]| chunks.last().map_or(from, |c| c.seq + length(c));
    let at_end = upto(&chunks) >= end;
    if !(over && at_end) {
        hold_back(&mut chunks, at_end);
    }
    let next = upto(&chunks);
    // What is held back is not there yet: whoever reads up to the end does not ask for it at once.
    let end = if at_end { end.min(next) } else { end };
    Ok(Some(LogRange {
        run_id,
        attempt,
        next,
        end,
        complete: over,
        dropped: if attempt == run.attempt { run.dropped } else { 0 },
        pieces: chunks.into_iter().map(piece).collect(),
    }))
}

/// The rows from the byte `from` on, until they have `most` bytes or all up to `end` are there.
pub(super) async fn stretch(
    db: &Db,
    (run_id, attempt): (i64, i32),
    from: i64,
    end: i64,
    most: usize,
) -> Result<Vec<LogChunk>, StoreError> {
    if from >= end {
        return Ok(Vec::new());
    }
    // The row that the first byte lies in begins before it.
    let mut chunks = read_log_from(db, run_id, attempt, from).await?;
    let (mut bytes, mut rows) = (0, ROWS.0);
    for _ in 0..ROUNDS {
        let after = chunks.last().map_or(from - 1, |c| c.seq);
        let more = read_log(db, run_id, attempt, after, rows).await?;
        let full = i64::try_from(more.len()) == Ok(rows);
        rows = (rows * 4).min(ROWS.1);
        bytes += more.iter().map(|c| c.bytes.len()).sum::<usize>();
        chunks.extend(more);
        if !full || bytes >= most {
            break;
        }
    }
    Ok(chunks)
}

pub(super) fn length(chunk: &LogChunk) -> i64 {
    i64::try_from(chunk.bytes.len()).unwrap_or(i64::MAX)
}

/// What of the rows lies in [from, from + most), counting stored bytes.
pub(super) fn cut(chunks: Vec<LogChunk>, from: i64, most: usize) -> Vec<LogChunk> {
    let mut left = most;
    let mut kept = Vec::new();
    for mut chunk in chunks {
        let skip = usize::try_from((from - chunk.seq).max(0)).unwrap_or(usize::MAX);
        if skip >= chunk.bytes.len() {
            continue;
        }
        chunk.bytes.drain(..skip);
        chunk.seq += i64::try_from(skip).unwrap_or(0);
        if chunk.bytes.len() > left {
            chunk.bytes.truncate(whole(&chunk.bytes, left));
        }
        if chunk.bytes.is_empty() {
            break;
        }
        left -= chunk.bytes.len();
        kept.push(chunk);
        if left == 0 {
            break;
        }
    }
    kept
}

/// The longest beginning of at most `most` bytes that cuts no character of UTF-8; `most` itself where that would be
/// nothing.
fn whole(bytes: &[u8], most: usize) -> usize {
    let boundary = |at: usize| bytes.get(at).is_none_or(|b| b & 0xC0 != 0x80);
    (most.saturating_sub(3)..=most)
        .rev()
        .find(|at| boundary(*at) && *at > 0)
        .unwrap_or(most)
}

/// A character that lies in two rows becomes part of the second.
fn join_characters(mut chunks: Vec<LogChunk>) -> Vec<LogChunk> {
    for index in 1..chunks.len() {
        let (before, after) = chunks.split_at_mut(index);
        let (Some(before), Some(after)) = (before.last_mut(), after.first_mut()) else {
            continue;
        };
        let kept = complete(&before.bytes);
        if before.stream == after.stream
            && before.seq + length(before) == after.seq
            && kept < before.bytes.len()
        {
            let begun = before.bytes.split_off(kept);
            after.seq -= i64::try_from(begun.len()).unwrap_or(0);
            after.bytes.splice(..0, begun);
        }
    }
    chunks.retain(|chunk| !chunk.bytes.is_empty());
    chunks
}

/// Leaves a character that is begun to the next stretch. Where that is all there is, only if its rest may still be written.
fn hold_back(chunks: &mut Vec<LogChunk>, may_come: bool) {
    let several = chunks.len() > 1;
    if let Some(last) = chunks.last_mut() {
        let kept = complete(&last.bytes);
        if kept > 0 || several || may_come {
            last.bytes.truncate(kept);
        }
    }
    chunks.retain(|chunk| !chunk.bytes.is_empty());
}

/// The bytes before a character that is begun at the end and not complete.
fn complete(bytes: &[u8]) -> usize {
    let begun = (1..=3.min(bytes.len()))
        .map(|back| bytes.len() - back)
        .find(|at| bytes[*at] & 0xC0 == 0xC0);
    match begun {
        Some(at) => {
            let length = bytes[at].leading_ones() as usize;
            if length <= 4 && at + length > bytes.len() {
                at
            } else {
                bytes.len()
            }
        }
        None => bytes.len(),
    }
}

fn last_lines(mut chunks: Vec<LogChunk>, lines: usize) -> Vec<LogChunk> {
    let mut wanted = lines;
    let ends_line = chunks.last().is_some_and(|c| c.bytes.ends_with(b"\n"));
    // The newline at the very end ends the last line and begins none.
    let mut skip_one = ends_line;
    for index in (0..chunks.len()).rev() {
        for at in (0..chunks[index].bytes.len()).rev() {
            if chunks[index].bytes[at] != b'\n' {
                continue;
            }
            if std::mem::take(&mut skip_one) {
                continue;
            }
            wanted = wanted.saturating_sub(1);
            if wanted == 0 {
                let chunk = &mut chunks[index];
                chunk.bytes.drain(..=at);
                chunk.seq += i64::try_from(at + 1).unwrap_or(0);
                chunks.drain(..index);
                chunks.retain(|c| !c.bytes.is_empty());
                return chunks;
            }
        }
    }
    chunks
}

fn piece(chunk: LogChunk) -> LogPiece {
    LogPiece {
        at_byte: chunk.seq,
        stream: chunk.stream,
        at: chunk.at,
        bytes: length(&chunk),
        text: String::from_utf8_lossy(&chunk.bytes).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(seq: i64, text: &str) -> LogChunk {
        LogChunk {
            run_id: 1,
            attempt: 1,
            seq,
            stream: LogStream::Stdout,
            at: Timestamp::UNIX_EPOCH,
            bytes: text.as_bytes().to_vec(),
        }
    }

    fn text(chunks: &[LogChunk]) -> String {
        chunks.iter().map(|c| String::from_utf8_lossy(&c.bytes)).collect()
    }

    #[test]
    fn a_stretch_begins_and_ends_where_it_was_asked_to() {
        let rows = vec![chunk(0, "hello "), chunk(6, "world\n"), chunk(12, "again\n")];
        let kept = cut(rows, 3, 7);
        assert_eq!((text(&kept).as_str(), kept[0].seq), ("lo worl", 3));
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let kept = cut(vec![chunk(0, "aäb")], 0, 2);
        assert_eq!(text(&kept), "a");
        let kept = cut(vec![chunk(0, "ä")], 0, 1);
        assert_eq!(
            kept[0].bytes.len(),
            1,
            "what is shorter than a character still goes on"
        );
    }

    #[test]
    fn a_character_in_two_rows_is_one_character() {
        let mut rows = vec![chunk(0, "aä"), chunk(2, "x")];
        rows[1].bytes = vec![0xA4, b'b'];
        rows[0].bytes.truncate(2);
        let joined = join_characters(rows);
        assert_eq!((text(&joined).as_str(), joined[1].seq), ("aäb", 1));
    }

    #[test]
    fn the_last_lines_are_counted_from_the_end() {
        let rows = || vec![chunk(0, "1\n2\n3"), chunk(5, "3\n4\n")];
        assert_eq!(text(&last_lines(rows(), 2)), "33\n4\n");
        assert_eq!(text(&last_lines(rows(), 1)), "4\n");
        assert_eq!(text(&last_lines(rows(), 9)), "1\n2\n33\n4\n");
        assert_eq!(last_lines(rows(), 2)[0].seq, 4);
    }
}
