//! An attempt's output in bounded local files.
//!
//! The first half of the cap is kept from the start of the output, the second half is a ring of two segments
//! that follows its end. A file is a row of frames; a frame carries the position of its first byte in all the
//! command ever wrote, so whatever is missing shows as a jump in positions and is never silent.
//!
//! ```text
//! output.0  head, half the cap          output.N, output.N+1   tail, a quarter of the cap each
//! frame = stream u8 · position u64 · wall ms i64 · length u32 (big-endian) · bytes
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::paths::{named, readable_file};
use crate::wire::OutputStats;

/// Bytes before the payload of each frame.
pub(crate) const HEADER: usize = 21;
/// Payload of one frame, at most.
pub(crate) const MAX_PAYLOAD: usize = 64 << 10;
/// A smaller cap is raised to this.
pub(crate) const MIN_LOCAL: u64 = 64 << 10;

/// Which stream a piece of output is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    Stdout = 1,
    Stderr = 2,
    /// What the warden itself has to say in between.
    Agent = 3,
}

/// The file of a segment in an attempt's directory.
pub(crate) fn segment_path(dir: &Path, segment: u64) -> PathBuf {
    dir.join(format!("output.{segment}"))
}

/// Never fails: what cannot be written is counted.
#[derive(Debug)]
pub struct OutputWriter {
    dir: PathBuf,
    local: u64,
    segment: u64,
    /// Absent before the first byte, and while the file cannot be opened.
    file: Option<File>,
    /// Bytes of whole frames in the current segment.
    written: u64,
    /// Payload in the current segment and in the one before.
    payload: [u64; 2],
    stats: OutputStats,
}

impl OutputWriter {
    /// A writer into this directory that keeps `local` bytes, or the least that is possible.
    pub fn new(dir: PathBuf, local: u64) -> Self {
        let local = local.max(MIN_LOCAL);
        let stats = OutputStats::default();
        OutputWriter {
            dir,
            local,
            segment: 0,
            file: None,
            written: 0,
            payload: [0, 0],
            stats,
        }
    }

    /// What was written and what was lost so far.
    pub fn stats(&self) -> &OutputStats {
        &self.stats
    }

    /// Remembers the first thing that went wrong around the attempt's files.
    pub fn note_error(&mut self, message: String) {
        self.stats.error.get_or_insert(message);
    }

    /// Appends output in frames. Over the cap the first segment and the two latest stay.
    pub fn write(&mut self, stream: Stream, at_ms: i64, bytes: &[u8]) {
        let most = MAX_PAYLOAD.min(self.limit() as usize - HEADER);
        for part in bytes.chunks(most) {
            let result = self.write_frame(stream, at_ms, part);
            self.stats.bytes += part.len() as u64;
            if let Err(error) = result {
                self.stats.dropped_bytes += part.len() as u64;
                self.note_error(error.to_string());
            }
        }
    }

    /// Of the current segment. The smallest cap leaves room for a frame in the smallest segment.
    fn limit(&self) -> u64 {
        if self.segment == 0 {
            self.local / 2
        } else {
            self.local / 4
        }
    }

    fn write_frame(&mut self, stream: Stream, at_ms: i64, bytes: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(HEADER + bytes.len());
        frame.push(stream as u8);
        frame.extend_from_slice(&self.stats.bytes.to_be_bytes());
        frame.extend_from_slice(&at_ms.to_be_bytes());
        frame.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        frame.extend_from_slice(bytes);
        if self.written + frame.len() as u64 > self.limit() {
            self.rotate();
        }
        let written = self.written;
        let file = self.open()?;
        if let Err(error) = file.write_all(&frame) {
            // A reader must never meet half a frame followed by a whole one.
            let _ = file.set_len(written);
            return Err(error);
        }
        self.written += frame.len() as u64;
        self.payload[0] += bytes.len() as u64;
        Ok(())
    }

    fn open(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let path = segment_path(&self.dir, self.segment);
            let mut options = OpenOptions::new();
            // Each segment is new, and no link is followed: whoever put one there chose neither file nor owner.
            let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
            options
                .append(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(flags);
            let made = options.open(&path).and_then(|file| {
                readable_file(&self.dir, &file)?;
                Ok(file)
            });
            self.file = Some(made.map_err(|e| named(e, &path))?);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("no segment"))
    }

    /// The oldest tail segment goes before the next is made, so that a full disk gets its room back first.
    fn rotate(&mut self) {
        self.file = None;
        if self.segment >= 2 {
            let oldest = segment_path(&self.dir, self.segment - 1);
            if std::fs::remove_file(oldest).is_ok() {
                self.stats.dropped_bytes += self.payload[1];
            }
        }
        self.payload = [0, self.payload[0]];
        self.segment += 1;
        self.written = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::{Item, OutputReader};
    use super::*;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let path = std::env::temp_dir().join(format!("farmhand-output-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Dir(path)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn drain(reader: &mut OutputReader) -> (Vec<u8>, u64) {
        let (mut kept, mut dropped) = (Vec::new(), 0);
        while let Some(item) = reader.next().unwrap() {
            match item {
                Item::Chunk { bytes, .. } => kept.extend(bytes),
                Item::Dropped { bytes, .. } => dropped += bytes,
            }
        }
        (kept, dropped)
    }

    #[test]
    fn what_fits_is_read_back_byte_for_byte_while_it_is_written() {
        let dir = Dir::new("fits");
        let mut writer = OutputWriter::new(dir.0.clone(), 1 << 20);
        let mut reader = OutputReader::new(dir.0.clone(), 0);
        assert!(reader.next().unwrap().is_none());
        for round in 0..50u8 {
            writer.write(
                if round % 2 == 0 {
                    Stream::Stdout
                } else {
                    Stream::Stderr
                },
                5,
                &[round; 1000],
            );
            let Some(Item::Chunk {
                position,
                stream,
                at_ms,
                bytes,
            }) = reader.next().unwrap()
            else {
                panic!()
            };
            assert_eq!(
                (position, at_ms, bytes),
                (u64::from(round) * 1000, 5, vec![round; 1000])
            );
            assert_eq!(stream == Stream::Stdout, round % 2 == 0);
        }
        assert_eq!(
            writer.stats(),
            &OutputStats {
                bytes: 50_000,
                dropped_bytes: 0,
                error: None
            }
        );
        let mut resumed = OutputReader::new(dir.0.clone(), 1_500);
        let (rest, dropped) = drain(&mut resumed);
        assert_eq!((rest.len(), rest[0], rest[500], dropped), (48_500, 1, 2, 0));
    }

    #[test]
    fn a_flood_keeps_head_and_tail_within_the_cap_and_counts_the_rest() {
        let dir = Dir::new("flood");
        let mut writer = OutputWriter::new(dir.0.clone(), MIN_LOCAL);
        let mut all = Vec::new();
        for line in 0..20_000 {
            let text = format!("line {line}\n");
            writer.write(Stream::Stdout, 0, text.as_bytes());
            all.extend_from_slice(text.as_bytes());
        }
        let on_disk: u64 = std::fs::read_dir(&dir.0)
            .unwrap()
            .map(|e| e.unwrap().metadata().unwrap().len())
            .sum();
        assert!(on_disk <= MIN_LOCAL, "{on_disk}");
        let (kept, dropped) = drain(&mut OutputReader::new(dir.0.clone(), 0));
        assert_eq!(kept.len() as u64 + dropped, all.len() as u64);
        assert_eq!(dropped, writer.stats().dropped_bytes);
        assert!(all.starts_with(&kept[..5_000]) && all.ends_with(&kept[kept.len() - 5_000..]));
    }

    #[test]
    fn a_reader_that_keeps_up_loses_nothing_to_the_ring() {
        let dir = Dir::new("keeps-up");
        let mut writer = OutputWriter::new(dir.0.clone(), MIN_LOCAL);
        let mut reader = OutputReader::new(dir.0.clone(), 0);
        let mut got = 0;
        for _ in 0..100 {
            writer.write(Stream::Stdout, 0, &[b'x'; 7_000]);
            let (kept, dropped) = drain(&mut reader);
            assert_eq!(dropped, 0);
            got += kept.len();
        }
        assert_eq!(got, 700_000);
    }

    #[test]
    fn an_unwritable_directory_is_counted_and_said() {
        let mut writer = OutputWriter::new(PathBuf::from("/proc/no-such-directory"), MIN_LOCAL);
        writer.write(Stream::Stderr, 0, &[0; 100_000]);
        assert_eq!(
            (writer.stats().bytes, writer.stats().dropped_bytes),
            (100_000, 100_000)
        );
        assert!(writer.stats().error.as_deref().unwrap().contains("output."));
    }
}
