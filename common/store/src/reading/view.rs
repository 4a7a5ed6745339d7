//! A stretch of an attempt's output for a page: whole lines with their numbers, and what lies before them for whoever
//! follows colours.

use serde::Deserialize;
use tokio_postgres::types::Type;

use super::logs::{cut, length, log_state, stretch};
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::logs::{LogChunk, read_log_from};

/// Bytes of a stretch.
const STRETCH: usize = 64 << 10;
/// Bytes before it that are read too: an escape sequence, or a colour, may have begun there.
const BEFORE: i64 = 4 << 10;
/// Rows whose lines one statement counts, and bytes that are looked at in all.
const ROWS: i64 = 256;
const COUNTED: i64 = 256 << 20;
/// The highest number of a line that is believed.
const LAST_LINE: i64 = 1 << 48;
/// Lines that are shown before the one that was asked for; fewer where lines are long.
const ABOVE: [i64; 3] = [40, 4, 0];

/// Which stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The last one.
    End,
    /// The one with this line, from 1.
    Line(i64),
    /// From this byte on, which is in the line of this number when it is known.
    From(i64, Option<i64>),
    /// The one that ends before this byte, which is in the line of this number when it is known.
    Before(i64, Option<i64>),
}

/// A stretch of output: whole lines, but for the last one of a command that is writing it, and for lines that are longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogView {
    pub run_id: i64,
    pub attempt: i32,
    /// What lies before the stretch, as far as it may matter to its colours.
    pub before: Vec<LogChunk>,
    /// What was written, piece by piece.
    pub chunks: Vec<LogChunk>,
    /// The first byte that was asked for; the first chunk may begin later, where bytes were not kept.
    pub from: i64,
    /// The byte at which the next stretch begins. A line that is being written is shown, and lies behind it.
    pub next: i64,
    /// The number of the line at `from`; None where there is too much output to count.
    pub line: Option<i64>,
    /// `from` is not at the beginning of that line.
    pub within: bool,
    /// The end of what is stored now.
    pub end: i64,
    /// Nothing more will be stored.
    pub complete: bool,
}

impl LogView {
    /// The number of the line at `next`.
    pub fn next_line(&self) -> Option<i64> {
        let shown = self.chunks.iter().flat_map(|chunk| {
            let until = usize::try_from(self.next - chunk.seq).unwrap_or(0);
            &chunk.bytes[..until.min(chunk.bytes.len())]
        });
        let lines = shown.filter(|byte| **byte == b'\n').count();
        self.line.map(|line| line + i64::try_from(lines).unwrap_or(0))
    }
}

/// A stretch of an attempt's output, of the last attempt when none is named. None when there is no such run or attempt.
pub async fn log_view(
    db: &Db,
    run_id: i64,
    attempt: Option<i32>,
    place: Place,
) -> Result<Option<LogView>, StoreError> {
    let Some(run) = log_state(db, run_id, attempt).await? else {
        return Ok(None);
    };
    let attempt = attempt.unwrap_or(run.attempt);
    if attempt < 0 || attempt > run.attempt {
        return Ok(None);
    }
    let of = (run_id, attempt);
    let number = |line: i64| line.clamp(1, LAST_LINE);
    let (from, until, line) = match place {
        Place::End => (None, run.end, None),
        Place::From(byte, line) => (Some(byte.max(0)), run.end, line.map(number)),
        Place::Before(byte, line) => (None, byte.clamp(0, run.end), line.map(number)),
        Place::Line(line) => match found(db, of, number(line)).await? {
            Some((byte, line)) => (Some(byte), run.end, Some(line)),
            None => (None, run.end, None),
        },
    };
    let mut view = LogView {
        run_id,
        attempt,
        before: Vec::new(),
        chunks: Vec::new(),
        from: 0,
        next: until,
        line,
        within: false,
        end: run.end,
        complete: run.state.is_final() || attempt < run.attempt,
    };
    let begin = match from {
        Some(from) => from,
        // Where bytes were not kept, nothing may lie just before it.
        None => (stored(db, of, until).await? - STRETCH as i64).max(0),
    };
    let rows = stretch(
        db,
        of,
        (begin - BEFORE).max(0),
        until,
        STRETCH + 2 * BEFORE as usize,
    )
    .await?;
    (view.from, view.before) = (begin, until_byte(&rows, begin));
    view.chunks = until_byte(&cut(rows, begin, STRETCH), until);
    match from {
        Some(_) => end_with_a_line(&mut view),
        None => {
            begin_with_a_line(&mut view);
            if place == Place::End {
                end_with_a_line(&mut view);
            } else {
                view.next = view.chunks.last().map_or(until, |c| c.seq + length(c));
            }
            let ended = view.next_line().zip(view.line);
            match line {
                // What was known is the number at the end.
                Some(line) => view.line = ended.map(|(next, first)| line - (next - first)),
                None => view.line = line_of(db, of, view.from).await?,
            }
        }
    }
    let before = view.before.last().filter(|c| c.seq + length(c) == view.from);
    view.within = view.from > 0 && before.is_some_and(|c| !c.bytes.ends_with(b"\n"));
    Ok(Some(view))
}

/// The end of what is stored before a byte.
async fn stored(db: &Db, (run_id, attempt): (i64, i32), byte: i64) -> Result<i64, StoreError> {
    let row = read_log_from(db, run_id, attempt, byte - 1).await?;
    Ok(row.last().map_or(0, |c| (c.seq + length(c)).min(byte)))
}

/// What of the rows lies before a byte.
fn until_byte(rows: &[LogChunk], byte: i64) -> Vec<LogChunk> {
    let mut kept: Vec<LogChunk> = rows.iter().filter(|c| c.seq < byte).cloned().collect();
    if let Some(last) = kept.last_mut() {
        last.bytes
            .truncate(usize::try_from(byte - last.seq).unwrap_or(usize::MAX));
    }
    kept
}

/// Leaves out the end of a line that begins before the stretch, unless that is all.
fn begin_with_a_line(view: &mut LogView) {
    if view.from == 0 || view.before.last().is_some_and(|c| c.bytes.ends_with(b"\n")) {
        return;
    }
    let newline = (view.chunks.iter().enumerate())
        .find_map(|(index, c)| Some((index, c.bytes.iter().position(|b| *b == b'\n')?)));
    let Some((index, at)) = newline else {
        return;
    };
    let from = view.chunks[index].seq + i64::try_from(at + 1).unwrap_or(0);
    if view.chunks.last().is_some_and(|c| c.seq + length(c) > from) {
        view.before.extend(until_byte(&view.chunks, from));
        view.chunks = cut(std::mem::take(&mut view.chunks), from, usize::MAX);
        view.from = from;
    }
}

/// Where the next stretch begins: after the last whole line, which is also the end of this one unless nothing is stored
/// behind it.
fn end_with_a_line(view: &mut LogView) {
    let to = view.chunks.last().map_or(view.from, |c| c.seq + length(c));
    let newline = (view.chunks.iter().rev()).find_map(|c| {
        Some(c.seq + i64::try_from(c.bytes.iter().rposition(|b| *b == b'\n')? + 1).unwrap_or(0))
    });
    let full = usize::try_from(to - view.from).is_ok_and(|bytes| bytes >= STRETCH - 4);
    view.next = match newline {
        Some(next) => next,
        None if full || to < view.end => to,
        None => view.from,
    };
    if to < view.end {
        view.chunks = until_byte(&view.chunks, view.next);
    } else if view.complete {
        view.next = to;
    }
}

#[derive(Deserialize)]
struct Lines {
    seq: i64,
    bytes: i64,
    lines: i64,
}

/// Looks through the lines of each row until `wanted` is true of a row and the number of lines before it; gives that
/// number and the row's first byte. None at the end, or when there is too much.
async fn through(
    db: &Db,
    (run_id, attempt): (i64, i32),
    wanted: impl Fn(&Lines, i64) -> bool,
) -> Result<(i64, Option<i64>), StoreError> {
    let (mut after, mut before, mut bytes) = (-1_i64, 0, 0);
    loop {
        let params = [
            (&run_id as _, Type::INT8),
            (&attempt as _, Type::INT4),
            (&after as _, Type::INT8),
            (&ROWS as _, Type::INT8),
        ];
        let rows: Vec<Lines> = db.rows(stmt!("reading_lines"), &params).await?;
        for row in &rows {
            if wanted(row, before) {
                return Ok((before, Some(row.seq)));
            }
            after = row.seq;
            before += row.lines;
            bytes += row.bytes;
        }
        if i64::try_from(rows.len()) != Ok(ROWS) || bytes > COUNTED {
            return Ok((before, None));
        }
    }
}

/// The number of the line that a byte is in; None where there is too much to count.
async fn line_of(db: &Db, of: (i64, i32), byte: i64) -> Result<Option<i64>, StoreError> {
    let (before, row) = through(db, of, |row, _| row.seq + row.bytes > byte).await?;
    let Some(seq) = row else {
        return Ok((byte <= COUNTED).then_some(before + 1));
    };
    let rows = until_byte(&read_log_from(db, of.0, of.1, seq).await?, byte);
    let within = rows
        .iter()
        .flat_map(|c| &c.bytes)
        .filter(|b| **b == b'\n')
        .count();
    Ok(Some(before + 1 + i64::try_from(within).unwrap_or(0)))
}

async fn byte_of(db: &Db, of: (i64, i32), line: i64) -> Result<Option<i64>, StoreError> {
    if line <= 1 {
        return Ok(Some(0));
    }
    let (before, row) = through(db, of, |row, before| before + row.lines >= line - 1).await?;
    let Some(seq) = row else {
        return Ok(None);
    };
    let ends = usize::try_from(line - 2 - before).unwrap_or(0);
    let row = read_log_from(db, of.0, of.1, seq).await?;
    let newline = row.last().and_then(|c| {
        let mut newlines = c.bytes.iter().enumerate().filter(|(_, b)| **b == b'\n');
        newlines
            .nth(ends)
            .map(|(at, _)| c.seq + i64::try_from(at + 1).unwrap_or(0))
    });
    Ok(newline)
}

/// Where to begin so that a line is in the stretch with some before it, and the number of the line there.
async fn found(db: &Db, of: (i64, i32), line: i64) -> Result<Option<(i64, i64)>, StoreError> {
    let Some(byte) = byte_of(db, of, line).await? else {
        return Ok(None);
    };
    for above in ABOVE {
        let first = (line - above).max(1);
        if let Some(begin) = byte_of(db, of, first).await?
            && byte - begin < STRETCH as i64 / 2
        {
            return Ok(Some((begin, first)));
        }
    }
    Ok(None)
}
