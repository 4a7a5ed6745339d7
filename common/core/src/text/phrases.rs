//! Texts for people.

use std::fmt::Display;
use std::time::Duration;

use jiff::Timestamp;

use crate::document::duration_text;

/// A moment for people, to the second; programs get RFC 3339 from serde.
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// A span for people: exact while it is short.
pub fn span(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_secs_f64()),
        seconds => duration_text(Duration::from_secs(seconds)),
    }
}

/// A number of things: `1 job`, `2 jobs`.
pub fn count(n: impl Display + PartialEq + From<u8>, noun: &str) -> String {
    count_of(n, noun, &format!("{noun}s"))
}

/// As [`count`], of what has another plural: `1 run is`, `2 runs are`.
pub fn count_of(n: impl Display + PartialEq + From<u8>, one: &str, many: &str) -> String {
    let noun = if n == 1u8.into() { one } else { many };
    format!("{n} {noun}")
}

/// Where to cut a text so that no character is torn, if it can be told; at most at `most`, which lies within the text.
pub fn cut_at(text: &[u8], most: usize) -> usize {
    let whole = |at: &usize| text[*at] & 0xc0 != 0x80;
    (most.saturating_sub(3)..=most).rev().find(whole).unwrap_or(most)
}

/// For pasting into a shell.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
