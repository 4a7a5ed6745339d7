//! The stream that hides secrets, against a slow and obvious one.

use std::sync::Arc;

use farmhand_core::text::redact::{MASK, Redactor, SHORTEST, Secrets};
use proptest::collection::vec;
use proptest::prelude::*;

/// Marks each byte of each occurrence, then writes one mask for each row of marked bytes.
fn slowly(secrets: &[Vec<u8>], text: &[u8]) -> Vec<u8> {
    let mut hidden = vec![false; text.len()];
    for secret in secrets.iter().filter(|s| s.len() >= SHORTEST) {
        for at in 0..text.len() {
            if text[at..].starts_with(secret) {
                hidden[at..at + secret.len()].fill(true);
            }
        }
    }
    let mut out = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        match (hidden[at], at > 0 && hidden[at - 1]) {
            (true, false) => out.extend_from_slice(MASK),
            (true, true) => {}
            (false, _) => out.push(*byte),
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Of two letters, so that secrets overlap themselves and each other.
    #[test]
    fn a_cut_stream_is_hidden_like_a_whole_text(
        secrets in vec(vec(b'a'..=b'b', 1..12), 0..5),
        chunks in vec(vec(b'a'..=b'b', 0..20), 0..12),
    ) {
        let known = Arc::new(Secrets::new(secrets.iter().map(Vec::as_slice)).unwrap());
        let longest = secrets.iter().map(Vec::len).max().unwrap_or(0);
        let mut redactor = Redactor::new(known);
        let mut out = Vec::new();
        for chunk in &chunks {
            redactor.push(chunk, &mut out);
            prop_assert!(redactor.holds() < longest.max(1));
        }
        redactor.finish(&mut out);
        let text = chunks.concat();
        prop_assert_eq!(String::from_utf8(out), String::from_utf8(slowly(&secrets, &text)));
    }
}
