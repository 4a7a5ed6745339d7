//! Hides secrets in a stream of bytes, wherever the chunks of the stream are cut.
//!
//! Every byte of every occurrence is hidden, overlapping ones too; what is hidden in one row becomes [`MASK`]. A byte is
//! held back only while an occurrence that it is part of may still be completed: at most the longest secret less one.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};

/// What a secret becomes, whatever its length.
pub const MASK: &[u8] = b"***";
/// Shorter ones would hide half of any text.
pub const SHORTEST: usize = 6;

/// Secrets, ready to be looked for.
#[derive(Debug)]
pub struct Secrets {
    sorted: BTreeSet<Vec<u8>>,
    finder: AhoCorasick,
}

impl Secrets {
    /// Each secret, and of one with several lines each line of at least [`SHORTEST`] bytes. Shorter ones are left out.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, BuildError> {
        let mut sorted = BTreeSet::new();
        for secret in secrets {
            sorted.insert(secret.to_vec());
            for line in secret.split(|b| *b == b'\n') {
                sorted.insert(line.strip_suffix(b"\r").unwrap_or(line).to_vec());
            }
        }
        sorted.retain(|secret| secret.len() >= SHORTEST);
        // The faster kind takes 64 MB for a long key.
        let finder = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&sorted)?;
        Ok(Self { sorted, finder })
    }

    /// What of `text` is part of a secret, joined and in order; its first `known` bytes are.
    fn hidden(&self, text: &[u8], known: usize) -> Vec<Range<usize>> {
        let mut hidden: Vec<Range<usize>> = std::iter::once(0..known).collect();
        // They come by their ends.
        for found in self.finder.find_overlapping_iter(text) {
            let mut range = found.range();
            while let Some(last) = hidden.pop_if(|last| last.end >= range.start) {
                range = last.start.min(range.start)..last.end.max(range.end);
            }
            hidden.push(range);
        }
        hidden
    }

    /// How many bytes at the end of `text` may be the beginning of a secret.
    fn begun(&self, text: &[u8]) -> usize {
        let longest = self.finder.max_pattern_len().saturating_sub(1);
        let begins = |end: &[u8]| {
            let longer = (Bound::Excluded(end), Bound::Unbounded);
            let next = self.sorted.range::<[u8], _>(longer).next();
            next.is_some_and(|secret| secret.starts_with(end))
        };
        let most = longest.min(text.len());
        (1..=most)
            .rev()
            .find(|n| begins(&text[text.len() - n..]))
            .unwrap_or(0)
    }

    /// A whole text at once.
    pub fn hide(self: &Arc<Self>, text: &[u8]) -> Vec<u8> {
        let mut redactor = Redactor::new(self.clone());
        let mut out = Vec::with_capacity(text.len());
        redactor.push(text, &mut out);
        redactor.finish(&mut out);
        out
    }
}

/// One stream.
#[derive(Debug)]
pub struct Redactor {
    secrets: Arc<Secrets>,
    /// Not passed on yet.
    held: Vec<u8>,
    /// How many of those are known to be part of a secret that began before them.
    known: usize,
    masked: bool,
}

impl Redactor {
    /// A filter of one stream of output.
    pub fn new(secrets: Arc<Secrets>) -> Self {
        Self {
            secrets,
            held: Vec::new(),
            known: 0,
            masked: false,
        }
    }

    /// Takes the next bytes in, and appends to `out` what is certain of them.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        let certain = self.held.len() - self.secrets.begun(&self.held);
        self.pass(certain, out);
    }

    /// The stream has ended: nothing that is held back can be a whole secret any more.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.pass(self.held.len(), out);
        self.masked = false;
    }

    /// Bytes that are held back.
    pub fn holds(&self) -> usize {
        self.held.len()
    }

    fn pass(&mut self, certain: usize, out: &mut Vec<u8>) {
        let mut at = 0;
        let mut known = 0;
        for range in self.secrets.hidden(&self.held, self.known) {
            self.plain(at..range.start.min(certain), out);
            if range.start < certain && !range.is_empty() && !self.masked {
                out.extend_from_slice(MASK);
                self.masked = true;
            }
            if range.start <= certain {
                known = range.end.saturating_sub(certain);
            }
            at = range.end.min(certain);
        }
        self.plain(at..certain, out);
        self.held.drain(..certain);
        self.known = known;
    }

    fn plain(&mut self, range: Range<usize>, out: &mut Vec<u8>) {
        if !range.is_empty() {
            out.extend_from_slice(&self.held[range]);
            self.masked = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(secrets: &[&str], chunks: &[&str]) -> String {
        let secrets = Arc::new(Secrets::new(secrets.iter().map(|s| s.as_bytes())).unwrap());
        let mut redactor = Redactor::new(secrets);
        let mut out = Vec::new();
        for chunk in chunks {
            redactor.push(chunk.as_bytes(), &mut out);
        }
        redactor.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_is_cut() {
        assert_eq!(
            through(&["sesame-1"], &["open ses", "ame", "-1 now"]),
            "open *** now"
        );
        assert_eq!(through(&["sesame-1"], &["sesame-", "2 sesame-1"]), "sesame-2 ***");
        assert_eq!(through(&["sesame-1"], &["sessesame-1sesame-1."]), "ses***.");
        assert_eq!(through(&["abcabcx", "bcabca"], &["abcabcabcx"]), "a***");
        assert_eq!(through(&["aaaaaa"], &["aaaaaaaaab aaaaa"]), "***b aaaaa");
        assert_eq!(through(&["short"], &["short"]), "short");
        assert_eq!(through(&[], &["anything"]), "anything");
        let key = "-----BEGIN-----\r\nabcdefgh\nxy\n";
        assert_eq!(through(&[key], &["line abcdefgh and xy"]), "line *** and xy");
    }

    #[test]
    fn no_more_is_held_back_than_may_be_part_of_a_secret() {
        let secrets = Arc::new(Secrets::new([&b"sesame-1"[..]]).unwrap());
        let mut redactor = Redactor::new(secrets);
        let mut out = Vec::new();
        redactor.push(b"password: ", &mut out);
        assert_eq!((out.as_slice(), redactor.holds()), (&b"password: "[..], 0));
        redactor.push(b"sesame-", &mut out);
        assert_eq!(redactor.holds(), 7);
        redactor.push(b"1", &mut out);
        assert_eq!((out.as_slice(), redactor.holds()), (&b"password: ***"[..], 0));
    }
}
