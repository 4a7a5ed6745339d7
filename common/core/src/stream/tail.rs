//! What tells a place in a list from a place in another one.

/// The bytes before a place in a list, as many as tell it from a place in another list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail(Vec<u8>);

impl Tail {
    /// So many bytes tell one place from another.
    pub const LENGTH: usize = 64;

    /// Goes on by `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        let fresh = &bytes[bytes.len().saturating_sub(Self::LENGTH)..];
        let kept = Self::LENGTH - fresh.len();
        self.0.drain(..self.0.len().saturating_sub(kept));
        self.0.extend_from_slice(fresh);
    }

    /// The bytes themselves, [`Self::LENGTH`] at most.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same in every release and on every machine.
    pub fn mark(&self) -> u64 {
        fnv1a(&self.0)
    }
}

/// FNV-1a, 64 bits (<https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>).
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_function() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_tail_is_the_same_however_its_bytes_came() {
        let text: Vec<u8> = (0..200).collect();
        let mut whole = Tail::default();
        whole.push(&text);
        for size in [1, 7, 63, 64, 65, 150] {
            let mut pieces = Tail::default();
            text.chunks(size).for_each(|piece| pieces.push(piece));
            assert_eq!(pieces, whole, "pieces of {size}");
        }
        assert_eq!(whole.bytes(), &text[136..]);
        let mut short = Tail::default();
        short.push(b"ab");
        short.push(b"c");
        assert_eq!(short.bytes(), b"abc");
        assert_ne!(short.mark(), whole.mark());
    }
}
