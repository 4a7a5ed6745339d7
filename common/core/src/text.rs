//! Texts for people.

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

/// For pasting into a shell.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
