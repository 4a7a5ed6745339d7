//! Instants, durations and sizes as people read them.

use std::time::Duration;

use farmhand_core::document::{from_millis, size_about};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

/// `2026-11-21 17:04:09` in UTC, which every page says at its foot.
pub fn clock(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// "3 min ago", "in 2 h": the browser keeps it true; the instant is in the title.
pub fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let words = match now.duration_since(at) {
        past if past >= SignedDuration::ZERO => format!("{} ago", span(past.unsigned_abs())),
        ahead => format!("in {}", span(ahead.unsigned_abs())),
    };
    element(at, "ago", &words)
}

/// "12 s": how long something has lasted.
pub fn since(at: Timestamp, now: Timestamp) -> Markup {
    let lasted = now.duration_since(at).max(SignedDuration::ZERO);
    element(at, "since", &span(lasted.unsigned_abs()))
}

/// The instant with its distance.
pub fn both(at: Timestamp, now: Timestamp) -> Markup {
    html! { span class="nowrap" { (clock(at)) } " " small class="nowrap" { "(" (ago(at, now)) ")" } }
}

fn element(at: Timestamp, kind: &str, words: &str) -> Markup {
    let title = format!("{} UTC", clock(at));
    html! { time datetime=(at.to_string()) data-rel=(kind) title=(title) { (words) } }
}

/// The two largest units; whole seconds, as the browser says it.
pub fn span(d: Duration) -> String {
    let s = d.as_secs() + u64::from(d.subsec_millis() >= 500);
    let (days, hours, minutes) = (s / 86_400, s / 3_600 % 24, s / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, m) if s < 600 && !s.is_multiple_of(60) => format!("{m} min {} s", s % 60),
        (0, 0, m) => format!("{m} min"),
        (0, h, 0) => format!("{h} h"),
        (0, h, m) => format!("{h} h {m} min"),
        (d, 0, _) => format!("{d} d"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

/// What something took, with milliseconds where they matter.
pub fn took(d: Duration) -> String {
    match d.as_millis() {
        ms @ ..1_000 => format!("{ms} ms"),
        ms @ ..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => span(d),
    }
}

/// Between two instants; nothing when the second comes first.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).max(SignedDuration::ZERO).unsigned_abs()
}

/// How long a command ran: as its node measured it, else between two instants.
pub fn ran(ms: Option<i64>, from: Timestamp, to: Timestamp) -> Duration {
    ms.map_or_else(|| between(from, to), from_millis)
}

pub fn bytes(n: i64) -> String {
    size_about(n.max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_say_their_two_largest_units() {
        let say = |s| span(Duration::from_secs(s));
        let said: Vec<_> = [0, 59, 60, 61, 599, 600, 3_599, 3_600, 5_400, 86_400, 90_000]
            .map(say)
            .into();
        let expected = [
            "0 s",
            "59 s",
            "1 min",
            "1 min 1 s",
            "9 min 59 s",
            "10 min",
            "59 min",
            "1 h",
            "1 h 30 min",
            "1 d",
            "1 d 1 h",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn durations_keep_milliseconds_where_they_matter() {
        let say = |ms| took(Duration::from_millis(ms));
        assert_eq!(
            [7, 1_250, 59_999, 61_000].map(say),
            ["7 ms", "1.2 s", "59.9 s", "1 min 1 s"]
        );
    }
}
