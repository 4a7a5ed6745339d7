//! Bytes become lines, whatever pieces they come in.

/// The longest line that is handed to a command, without its newline. Bytes.
pub const MAX_LINE: usize = 64 << 10;
/// What is kept of a longer one, to be shown.
const SHOWN: usize = 256;

/// One line, without its newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// No command gets it.
    Refused { start: Vec<u8>, why: Refused },
}

/// Why no command gets a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It has so many bytes.
    #[error("the line has {0} bytes, {MAX_LINE} are the most")]
    TooLong(u64),
    /// It has a NUL byte, which no variable can hold.
    #[error("the line has a NUL byte")]
    Nul,
}

/// The line that is not complete yet.
#[derive(Debug, Default)]
pub struct Lines {
    kept: Vec<u8>,
    length: u64,
    nul: bool,
}

impl Lines {
    /// Takes bytes up to the first newline, and says how many that were.
    pub fn take(&mut self, bytes: &[u8]) -> (usize, Option<Line>) {
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let end = newline.unwrap_or(bytes.len());
        let room = MAX_LINE.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..end.min(room)]);
        self.length += end as u64;
        self.nul |= bytes[..end].contains(&0);
        match newline {
            Some(at) => (at + 1, Some(self.complete())),
            None => (end, None),
        }
    }

    /// The list is over: what has no newline is a line too.
    pub fn finish(&mut self) -> Option<Line> {
        (self.length > 0).then(|| self.complete())
    }

    fn complete(&mut self) -> Line {
        let Self { kept, length, nul } = std::mem::take(self);
        let why = match (length > MAX_LINE as u64, nul) {
            (true, _) => Refused::TooLong(length),
            (false, true) => Refused::Nul,
            (false, false) => return Line::Whole(kept),
        };
        let start = kept[..kept.len().min(SHOWN)].to_vec();
        Line::Refused { start, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<Line> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (taken, line) = lines.take(rest);
                rest = &rest[taken..];
                found.extend(line);
            }
        }
        found.extend(lines.finish());
        found
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_come_in_pieces_and_the_last_needs_no_newline() {
        assert_eq!(
            all(&[b"on", b"e\ntwo\n\nfo", b"ur"]),
            ["one", "two", "", "four"].map(whole)
        );
        assert_eq!(all(&[b"one\n"]), [whole("one")]);
        assert_eq!(all(&[]), []);
    }

    #[test]
    fn a_line_may_be_as_long_as_it_may_be_and_not_a_byte_longer() {
        let longest = vec![b'x'; MAX_LINE];
        assert_eq!(all(&[&longest, b"\n"]), [Line::Whole(longest.clone())]);
        let found = all(&[&longest, b"y", &longest, b"\nnext\n"]);
        let (start, why) = (vec![b'x'; SHOWN], Refused::TooLong(2 * MAX_LINE as u64 + 1));
        assert_eq!(found, [Line::Refused { start, why }, whole("next")]);
    }

    #[test]
    fn a_nul_byte_is_refused_wherever_it_is() {
        let start = b"a\0b".to_vec();
        let why = Refused::Nul;
        assert_eq!(all(&[b"a\0b\nc\n"]), [Line::Refused { start, why }, whole("c")]);
    }
}
