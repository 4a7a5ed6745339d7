//! What of an attempt's output goes to the database: its first half cap, and a window over its end.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use farmhand_store::LogStream;
use farmhand_store::logs::LogChunk;
use jiff::Timestamp;

use farmhand_warden_client::wire::{AttemptId, OutputStats};
use farmhand_warden_client::{Item, OutputReader, Stream};

/// Read in one round at most: a bound on memory and on how long others wait.
const ROUND_MAX: u64 = 4 << 20;
/// Neighbouring pieces of one stream share a row up to this size.
const ROW_MAX: usize = 64 << 10;

/// The window over the end leaves out at most one of so many parts of what it could hold.
const WINDOW_ROWS: u64 = 8;

/// Follows one attempt's local files. What it has read stays pending until [`Shipper::sent`].
pub(crate) struct Shipper {
    id: AttemptId,
    dir: PathBuf,
    /// Absent until it is known where an earlier agent stopped.
    reader: Option<OutputReader>,
    head: u64,
    tail: u64,
    /// Rows in the window over the end: position, length.
    window: VecDeque<(u64, u64)>,
    window_bytes: u64,
    rows: VecDeque<LogChunk>,
    trim: Option<(i64, i64)>,
    cut: u64,
    /// After the last byte that was read.
    next: u64,
    more: bool,
}

impl Shipper {
    /// `keep` bytes are kept in the database. `fresh`: nothing of it can be there yet.
    pub(crate) fn new(id: AttemptId, dir: PathBuf, keep: u64, fresh: bool) -> Self {
        Self {
            id,
            reader: fresh.then(|| OutputReader::new(dir.clone(), 0)),
            dir,
            head: keep / 2,
            tail: keep - keep / 2,
            window: VecDeque::new(),
            window_bytes: 0,
            rows: VecDeque::new(),
            trim: None,
            cut: 0,
            next: 0,
            more: false,
        }
    }

    /// Whether it must be told where to resume.
    pub(crate) fn unplaced(&self) -> bool {
        self.reader.is_none()
    }

    /// Resumes after the last byte that the database has. What it lacks before that, an earlier agent left out.
    pub(crate) fn place(&mut self, position: i64, stored: i64) {
        self.next = u64::try_from(position).unwrap_or(0);
        self.cut = self.next.saturating_sub(u64::try_from(stored).unwrap_or(0));
        self.reader = Some(OutputReader::new(self.dir.clone(), self.next));
    }

    /// Reads on. While something is pending it reads nothing, and says that there may be more.
    pub(crate) fn read(&mut self) -> io::Result<()> {
        if !self.rows.is_empty() || self.trim.is_some() {
            self.more = true;
            return Ok(());
        }
        let Some(mut reader) = self.reader.take() else {
            return Ok(());
        };
        let result = self.read_from(&mut reader);
        self.reader = Some(reader);
        result
    }

    fn read_from(&mut self, reader: &mut OutputReader) -> io::Result<()> {
        let start = reader.position();
        self.more = false;
        while let Some(item) = reader.next()? {
            // A gap shows as a jump in positions.
            if let Item::Chunk {
                position,
                stream,
                at_ms,
                bytes,
            } = item
            {
                self.push(position, stream, at_ms, bytes);
            }
            if reader.position() - start >= ROUND_MAX {
                self.more = true;
                break;
            }
        }
        Ok(())
    }

    /// Rows to write, and positions [from, to) of rows sent earlier that the window has left.
    pub(crate) fn pending(&mut self) -> (&[LogChunk], Option<(i64, i64)>) {
        (self.rows.make_contiguous(), self.trim)
    }

    /// These rows are in the database, if they are its own: they are not sent again, should the rest have to be.
    pub(crate) fn stored(&mut self, rows: &[LogChunk]) {
        for row in rows {
            let first = self.rows.front();
            if first.is_some_and(|f| (f.run_id, f.attempt, f.seq) == (row.run_id, row.attempt, row.seq)) {
                self.rows.pop_front();
            }
        }
    }

    /// What was pending is in the database.
    pub(crate) fn sent(&mut self) {
        self.rows.clear();
        self.trim = None;
    }

    /// Bytes that the database does not keep, when everything has been read: those that left the window, and those that were gone
    /// from the local files before they were read.
    pub(crate) fn dropped(&self, output: &OutputStats) -> u64 {
        self.cut + output.bytes.saturating_sub(self.next)
    }

    /// The last round may have stopped before the end.
    pub(crate) fn more(&self) -> bool {
        self.more
    }

    fn push(&mut self, position: u64, stream: Stream, at_ms: i64, mut bytes: Vec<u8>) {
        self.cut += position.saturating_sub(self.next);
        self.next = position + bytes.len() as u64;
        let in_head = self.head.saturating_sub(position).min(bytes.len() as u64);
        let rest = bytes.split_off(usize::try_from(in_head).unwrap_or(0));
        if !bytes.is_empty() {
            self.add(position, stream, at_ms, bytes, true);
        }
        if rest.is_empty() {
            return;
        }
        // What the window cannot hold never enters it; what does comes in pieces that leave it one by one.
        let too_much = (rest.len() as u64).saturating_sub(self.tail);
        self.cut += too_much;
        let mut at = position + in_head + too_much;
        let piece = usize::try_from(self.tail / WINDOW_ROWS).map_or(ROW_MAX, |n| n.clamp(1 << 10, ROW_MAX));
        for part in rest[usize::try_from(too_much).unwrap_or(rest.len())..].chunks(piece) {
            self.add(at, stream, at_ms, part.to_vec(), false);
            let length = part.len() as u64;
            self.window.push_back((at, length));
            self.window_bytes += length;
            at += length;
        }
        while self.window_bytes > self.tail {
            let Some((gone, length)) = self.window.pop_front() else {
                break;
            };
            self.window_bytes -= length;
            self.cut += length;
            match self.rows.binary_search_by_key(&signed(gone), |r| r.seq) {
                Ok(unsent) => {
                    self.rows.remove(unsent);
                }
                Err(_) => {
                    let from = self.trim.map_or(signed(gone), |(from, _)| from);
                    self.trim = Some((from, signed(gone + length)));
                }
            }
        }
    }

    fn add(&mut self, position: u64, stream: Stream, at_ms: i64, bytes: Vec<u8>, may_join: bool) {
        let stream = log_stream(stream);
        if may_join
            && let Some(last) = self.rows.back_mut()
            && last.stream == stream
            && last.seq + last.bytes.len() as i64 == signed(position)
            && last.bytes.len() + bytes.len() <= ROW_MAX
        {
            last.bytes.extend(bytes);
            return;
        }
        self.rows.push_back(LogChunk {
            run_id: self.id.run_id,
            attempt: self.id.attempt,
            seq: signed(position),
            stream,
            at: Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH),
            bytes,
        });
    }
}

/// As rows and the run log name it.
pub(crate) fn log_stream(stream: Stream) -> LogStream {
    match stream {
        Stream::Stdout => LogStream::Stdout,
        Stream::Stderr => LogStream::Stderr,
        Stream::Agent => LogStream::Agent,
    }
}

fn signed(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: AttemptId = AttemptId {
        run_id: 1,
        attempt: 1,
    };

    /// What is in the database after `pieces` of these lengths, sent one by one: positions and lengths.
    fn kept(keep: u64, pieces: &[usize]) -> (Vec<(u64, u64)>, u64) {
        let mut shipper = Shipper::new(ID, PathBuf::new(), keep, true);
        let mut stored: Vec<(u64, u64)> = Vec::new();
        let mut position = 0;
        for length in pieces {
            shipper.push(position, Stream::Stdout, 0, vec![b'x'; *length]);
            position += *length as u64;
            let (rows, trim) = shipper.pending();
            let rows: Vec<(u64, u64)> = rows
                .iter()
                .map(|r| (r.seq as u64, r.bytes.len() as u64))
                .collect();
            if let Some((from, to)) = trim {
                stored.retain(|(at, _)| !(from as u64..to as u64).contains(at));
            }
            stored.extend(rows);
            shipper.sent();
        }
        let output = OutputStats {
            bytes: position,
            ..OutputStats::default()
        };
        (stored, shipper.dropped(&output))
    }

    #[test]
    fn what_the_window_left_out_is_counted_once_though_the_local_files_lost_it_too() {
        let mut shipper = Shipper::new(ID, PathBuf::new(), 64 << 10, true);
        for position in [0, 100_000, 400_000] {
            shipper.push(position, Stream::Stdout, 0, vec![b'x'; 100_000]);
        }
        // 100,000 could not be written any more at the end.
        let output = OutputStats {
            bytes: 600_000,
            dropped_bytes: 300_000,
            error: None,
        };
        let kept: u64 = shipper.pending().0.iter().map(|row| row.bytes.len() as u64).sum();
        assert!((56 << 10..=64 << 10).contains(&kept), "{kept}");
        assert_eq!(shipper.dropped(&output), output.bytes - kept);
    }

    #[test]
    fn what_was_not_sent_hides_nothing_that_came_after_it() {
        let mut shipper = Shipper::new(ID, PathBuf::from("/nonexistent"), 1 << 10, true);
        shipper.push(0, Stream::Stdout, 0, b"before".to_vec());
        shipper
            .read()
            .expect("nothing is read while something is pending");
        assert!(shipper.more(), "the files have not been looked at");
        shipper.sent();
        assert!(!shipper.unplaced(), "it knows where it was");
    }

    #[test]
    fn the_end_is_kept_however_large_its_last_piece_is() {
        for pieces in [
            &[200_000][..],
            &[10, 200_000],
            &[70_000, 70_000, 5],
            &[100; 2_000],
        ] {
            let total: u64 = pieces.iter().map(|n| *n as u64).sum();
            let (stored, cut) = kept(64 << 10, pieces);
            let last = stored.last().expect("rows");
            assert_eq!(last.0 + last.1, total, "{pieces:?}");
            let bytes: u64 = stored.iter().map(|(_, n)| n).sum();
            assert!((56 << 10..=64 << 10).contains(&bytes), "{bytes} of {pieces:?}");
            assert_eq!(bytes + cut, total, "what is not kept is counted");
        }
    }

    #[test]
    fn of_a_backlog_the_rows_that_leave_the_window_are_those_that_were_not_sent() {
        let mut shipper = Shipper::new(ID, PathBuf::new(), 64 << 10, true);
        let mut position = 0;
        let mut write = |shipper: &mut Shipper, pieces: u64| {
            for _ in 0..pieces {
                shipper.push(position, Stream::Stdout, 0, vec![b'x'; 1 << 10]);
                position += 1 << 10;
            }
        };
        // The head, and a window of 32 that is sent.
        write(&mut shipper, 64);
        shipper.sent();
        // All of that leaves it, and so do 8 of these.
        write(&mut shipper, 40);
        let (rows, trim) = shipper.pending();
        let rows: Vec<i64> = rows.iter().map(|r| r.seq >> 10).collect();
        assert_eq!(rows, (72..104).collect::<Vec<i64>>());
        assert_eq!(trim, Some((32 << 10, 64 << 10)));
    }

    #[test]
    fn what_an_earlier_agent_left_out_is_counted() {
        let mut shipper = Shipper::new(ID, PathBuf::new(), 1 << 20, false);
        shipper.place(20 << 20, 1 << 20);
        let output = OutputStats {
            bytes: 20 << 20,
            ..OutputStats::default()
        };
        assert_eq!(shipper.dropped(&output), 19 << 20);
    }
}
