//! How an input is taken apart: texts with a line of dashes between them, so that inputs can be read and written by hand.

const BETWEEN: &[u8] = b"\n----\n";

/// The parts of an input; at least `count`, the last ones empty where it has fewer.
pub fn parts(data: &[u8], count: usize) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(BETWEEN.len()).position(|w| w == BETWEEN) {
        parts.push(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    parts.push(rest);
    parts.resize(parts.len().max(count), b"");
    parts
}

/// As text; nothing where it is none.
pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// A number of the bytes: the same for the same input, different for most others.
pub fn number(bytes: &[u8]) -> u64 {
    farmhand_core::stream::fnv1a(bytes)
}

/// Cuts bytes into pieces of lengths that the bytes themselves decide.
pub fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut seed = number(bytes) | 1;
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let longest = [1, 3, 17, 200, 5_000][(seed >> 33) as usize % 5];
        let (piece, after) = rest.split_at(rest.len().min(1 + (seed >> 40) as usize % longest));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
