//! The trace that a run's command belongs to, as W3C Trace Context writes it.

use jiff::Timestamp;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// `TRACEPARENT` of an attempt: one trace for all runs of a firing and their attempts, a span for each attempt. Made of what
/// an attempt is, so that everyone who knows it says the same.
pub fn traceparent(job: &str, due: Timestamp, firing: i64, run: i64, attempt: i32) -> String {
    let trace = xxh3_128(format!("{job}\0{due}\0{firing}").as_bytes()).max(1);
    let span = xxh3_64(format!("{job}\0{due}\0{run}\0{attempt}").as_bytes()).max(1);
    format!("00-{trace:032x}-{span:016x}-01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_of_a_firing_share_a_trace_and_each_has_a_span_of_its_own() {
        let of =
            |due: i64, run, attempt| traceparent("j", Timestamp::from_second(due).unwrap(), 7, run, attempt);
        let first = of(0, 7, 1);
        let parts: Vec<&str> = first.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [2, 32, 16, 2], "{first}");
        assert!(
            first
                .bytes()
                .all(|b| b == b'-' || b.is_ascii_digit() || (b'a'..=b'f').contains(&b)),
            "{first}"
        );
        for (due, run, attempt, same) in [(0, 7, 2, true), (0, 8, 1, true), (60, 7, 1, false)] {
            let other = of(due, run, attempt);
            assert_eq!(other[..35] == first[..35], same, "{other} {first}");
            assert_ne!(other, first);
        }
        assert_eq!(first, of(0, 7, 1));
    }
}
