//! Hides secrets in a stream of bytes, wherever the chunks of the stream are cut: an automaton after Aho and Corasick
//! ("Efficient string matching: an aid to bibliographic search", 1975).
//!
//! Every byte of every occurrence is hidden, overlapping ones too; what is hidden in one row becomes [`MASK`]. A byte is
//! held back only while an occurrence that it is part of may still be completed: at most the longest secret less one.

use std::collections::VecDeque;
use std::sync::Arc;

/// What a secret becomes, whatever its length.
pub const MASK: &[u8] = b"***";
/// Shorter ones would hide half of any text.
pub const SHORTEST: usize = 6;

const ROOT: usize = 0;

#[derive(Debug, Default)]
struct Node {
    /// By byte, ascending.
    next: Vec<(u8, usize)>,
    /// The longest proper suffix of what leads here that is a beginning of a secret.
    fail: usize,
    /// How many bytes lead here.
    depth: usize,
    /// The longest secret that ends here.
    ends: usize,
}

impl Node {
    fn step(&self, byte: u8) -> Option<usize> {
        let at = self.next.binary_search_by_key(&byte, |(b, _)| *b).ok()?;
        Some(self.next[at].1)
    }
}

/// Secrets, ready to be looked for.
#[derive(Debug)]
pub struct Secrets {
    nodes: Vec<Node>,
}

impl Secrets {
    /// Each secret, and of one with several lines each line of at least [`SHORTEST`] bytes. Shorter ones are left out.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut all = Self {
            nodes: vec![Node::default()],
        };
        for secret in secrets {
            all.insert(secret);
            for line in secret.split(|b| *b == b'\n') {
                all.insert(line.strip_suffix(b"\r").unwrap_or(line));
            }
        }
        all.link();
        all
    }

    fn insert(&mut self, secret: &[u8]) {
        if secret.len() < SHORTEST {
            return;
        }
        let mut at = ROOT;
        for byte in secret {
            at = match self.nodes[at].next.binary_search_by_key(byte, |(b, _)| *b) {
                Ok(found) => self.nodes[at].next[found].1,
                Err(place) => {
                    let new = self.nodes.len();
                    let depth = self.nodes[at].depth + 1;
                    self.nodes[at].next.insert(place, (*byte, new));
                    self.nodes.push(Node {
                        depth,
                        ..Node::default()
                    });
                    new
                }
            };
        }
        self.nodes[at].ends = secret.len();
    }

    /// By breadth, so that what a node falls back to is done before it.
    fn link(&mut self) {
        let mut queue: VecDeque<usize> = self.nodes[ROOT].next.iter().map(|(_, n)| *n).collect();
        while let Some(at) = queue.pop_front() {
            for (byte, child) in self.nodes[at].next.clone() {
                let fail = self.advance(self.nodes[at].fail, byte);
                self.nodes[child].fail = fail;
                self.nodes[child].ends = self.nodes[child].ends.max(self.nodes[fail].ends);
                queue.push_back(child);
            }
        }
    }

    fn advance(&self, mut at: usize, byte: u8) -> usize {
        loop {
            match self.nodes[at].step(byte) {
                Some(next) => return next,
                None if at == ROOT => return ROOT,
                None => at = self.nodes[at].fail,
            }
        }
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
    at: usize,
    /// Not passed on yet, and whether it is part of a secret.
    held: VecDeque<(u8, bool)>,
    masked: bool,
}

impl Redactor {
    pub fn new(secrets: Arc<Secrets>) -> Self {
        Self {
            secrets,
            at: ROOT,
            held: VecDeque::new(),
            masked: false,
        }
    }

    /// Takes the next bytes in, and appends to `out` what is certain of them.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            self.at = self.secrets.advance(self.at, *byte);
            let node = &self.secrets.nodes[self.at];
            let (depth, ends) = (node.depth, node.ends);
            self.held.push_back((*byte, false));
            // What was passed on already was hidden.
            let from = self.held.len().saturating_sub(ends);
            self.held.range_mut(from..).for_each(|(_, hidden)| *hidden = true);
            while self.held.len() > depth || self.held.front().is_some_and(|(_, hidden)| *hidden) {
                self.pass(out);
            }
        }
    }

    /// The stream has ended: nothing that is held back can be a whole secret any more.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        while !self.held.is_empty() {
            self.pass(out);
        }
        self.at = ROOT;
        self.masked = false;
    }

    /// Bytes that are held back.
    pub fn holds(&self) -> usize {
        self.held.len()
    }

    fn pass(&mut self, out: &mut Vec<u8>) {
        let Some((byte, hidden)) = self.held.pop_front() else {
            return;
        };
        match (hidden, self.masked) {
            (true, false) => out.extend_from_slice(MASK),
            (true, true) => {}
            (false, _) => out.push(byte),
        }
        self.masked = hidden;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(secrets: &[&str], chunks: &[&str]) -> String {
        let secrets = Arc::new(Secrets::new(secrets.iter().map(|s| s.as_bytes())));
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
        let secrets = Arc::new(Secrets::new([&b"sesame-1"[..]]));
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
