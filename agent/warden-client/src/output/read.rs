//! Follows the local files of `write.rs`, also while they are written and after the warden is gone.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::write::{HEADER, MAX_PAYLOAD, Stream, segment_path};

/// What a reader of output comes upon.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    Chunk {
        /// Of the first byte in all the command wrote, both streams counted together.
        position: u64,
        stream: Stream,
        /// When the warden read it, in milliseconds since 1970.
        at_ms: i64,
        bytes: Vec<u8>,
    },
    /// So many bytes from `position` on are not in the files any more, or never were.
    Dropped { position: u64, bytes: u64 },
}

impl Item {
    /// The position to resume at once this item is dealt with.
    pub fn end(&self) -> u64 {
        match self {
            Item::Chunk { position, bytes, .. } => position + bytes.len() as u64,
            Item::Dropped { position, bytes } => position + bytes,
        }
    }
}

/// Positions only grow: resumed at [`Item::end`], nothing comes twice and nothing is left out unmentioned.
#[derive(Debug)]
pub struct OutputReader {
    dir: PathBuf,
    position: u64,
    segment: u64,
    file: Option<File>,
    offset: u64,
    /// Met a jump: the frame behind it comes next.
    pending: Option<Item>,
}

impl OutputReader {
    /// `dir` is the attempt's directory ([`crate::Paths::attempt_dir`]); it need not exist yet.
    pub fn new(dir: PathBuf, position: u64) -> Self {
        OutputReader {
            dir,
            position,
            segment: 0,
            file: None,
            offset: 0,
            pending: None,
        }
    }

    /// Up to where it has read, in bytes of all the command wrote.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next piece, at most 64 KiB; `None`: nothing more yet. After an attempt's end, nothing more at all.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator ends at None, this one may go on"
    )]
    pub fn next(&mut self) -> io::Result<Option<Item>> {
        if let Some(item) = self.pending.take() {
            self.position = item.end();
            return Ok(Some(item));
        }
        while let Some((position, stream, at_ms, bytes)) = self.next_frame()? {
            let end = position + bytes.len() as u64;
            if end <= self.position {
                continue;
            }
            if position > self.position {
                let gap = Item::Dropped {
                    position: self.position,
                    bytes: position - self.position,
                };
                self.pending = Some(Item::Chunk {
                    position,
                    stream,
                    at_ms,
                    bytes,
                });
                self.position = position;
                return Ok(Some(gap));
            }
            let skip = (self.position - position) as usize;
            let bytes = if skip == 0 { bytes } else { bytes[skip..].to_vec() };
            let item = Item::Chunk {
                position: self.position,
                stream,
                at_ms,
                bytes,
            };
            self.position = end;
            return Ok(Some(item));
        }
        Ok(None)
    }

    /// After an attempt's end and the last item: what is missing up to the `total` its result names.
    pub fn finish(&mut self, total: u64) -> Option<Item> {
        let missing = total.checked_sub(self.position).filter(|m| *m > 0)?;
        let item = Item::Dropped {
            position: self.position,
            bytes: missing,
        };
        self.position = total;
        Some(item)
    }

    fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if self.file.is_none() && !self.open_next()? {
                return Ok(None);
            }
            if let Some(frame) = self.read_frame()? {
                return Ok(Some(frame));
            }
            if !self.newer_exists()? {
                return Ok(None);
            }
            // The segment ended before the newer one was made: what it has now is all it will ever have.
            if let Some(frame) = self.read_frame()? {
                return Ok(Some(frame));
            }
            self.file = None;
            self.segment += 1;
        }
    }

    fn read_frame(&mut self) -> io::Result<Option<Frame>> {
        let Some(file) = &self.file else { return Ok(None) };
        let mut header = [0; HEADER];
        if !read_whole(file, &mut header, self.offset)? {
            return Ok(None);
        }
        let (Some(stream), Some(position), Some(at), Some(length)) = (
            header.first(),
            array(&header, 1),
            array(&header, 9),
            array(&header, 17),
        ) else {
            return Ok(None);
        };
        let (position, at_ms) = (u64::from_be_bytes(position), i64::from_be_bytes(at));
        let length = u32::from_be_bytes(length) as usize;
        let stream = match stream {
            1 => Stream::Stdout,
            2 => Stream::Stderr,
            3 => Stream::Agent,
            // A machine that lost power leaves zeroes behind: nothing after them counts.
            _ => return Ok(None),
        };
        if length == 0 || length > MAX_PAYLOAD {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        if !read_whole(file, &mut bytes, self.offset + HEADER as u64)? {
            return Ok(None);
        }
        self.offset += (HEADER + length) as u64;
        Ok(Some((position, stream, at_ms, bytes)))
    }

    fn open_next(&mut self) -> io::Result<bool> {
        loop {
            let Some(segment) = self.segments()?.into_iter().filter(|s| *s >= self.segment).min() else {
                return Ok(false);
            };
            match File::open(segment_path(&self.dir, segment)) {
                Ok(file) => {
                    self.file = Some(file);
                    self.segment = segment;
                    self.offset = 0;
                    return Ok(true);
                }
                // The ring moved on between the listing and here.
                Err(e) if e.kind() == io::ErrorKind::NotFound => self.segment = segment + 1,
                Err(e) => return Err(e),
            }
        }
    }

    fn newer_exists(&self) -> io::Result<bool> {
        Ok(self.segments()?.iter().any(|s| *s > self.segment))
    }

    fn segments(&self) -> io::Result<Vec<u64>> {
        let entries = match std::fs::read_dir(&self.dir) {
            // Nor is there any output where the directory could not be made.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            other => other?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            found.extend(
                name.to_str()
                    .and_then(|n| n.strip_prefix("output."))
                    .and_then(|n| n.parse::<u64>().ok()),
            );
        }
        Ok(found)
    }
}

/// Position, stream, wall milliseconds, payload.
type Frame = (u64, Stream, i64, Vec<u8>);

/// False when the file has not that much yet.
fn read_whole(file: &File, bytes: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, at) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

fn array<const N: usize>(header: &[u8], at: usize) -> Option<[u8; N]> {
    header.get(at..)?.first_chunk::<N>().copied()
}
