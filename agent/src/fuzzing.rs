//! What `tests/fuzz` reaches of this crate: what lies behind files and sockets, given bytes in place of them. Nothing else
//! uses it.

use std::collections::BTreeMap;

use farmhand_common::store::signatures::Signed;

pub use crate::http::fuzzing::{Answer, Served};
use crate::runlog::lines::Lines;
use crate::runlog::mark::SentSoFar;
pub use crate::steward::fuzzing::Captive as CaptiveSteward;
use crate::trust::Document;
pub use crate::warden::frame::{FrameError, decode, encode};
pub use crate::warden::fuzzing::Captive;
use crate::warden::{Item, Stream};

/// The content of a FILE.sig.
///
/// # Errors
/// Its first line that is none of one, and why.
pub fn signatures(text: &str) -> Result<BTreeMap<String, (Document, Signed)>, (usize, String)> {
    crate::cli::sign::parse(text)
}

/// The lines that a log of at most `most` bytes a line gets of a stream that comes in these pieces, and whether each goes on.
pub fn lines_of_log(pieces: &[&[u8]], most: usize) -> Vec<(Vec<u8>, bool)> {
    let mut lines = Lines::new(most, SentSoFar::default());
    let mut position = 0;
    for piece in pieces {
        lines.push(Item::Chunk {
            position,
            stream: Stream::Stdout,
            at_ms: 0,
            bytes: piece.to_vec(),
        });
        position += piece.len() as u64;
    }
    lines.close();
    let mut found = Vec::new();
    while let Some(line) = lines.front() {
        found.push((line.bytes.clone(), line.goes_on));
        lines.pop();
    }
    found
}
