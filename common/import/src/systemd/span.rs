//! Time spans as systemd.time(7) writes them: `5min 20s`, `1.5h`, `90`.

use std::time::Duration;

const UNITS: [(&[&str], f64); 9] = [
    (&["usec", "us", "µs", "μs"], 1e-6),
    (&["msec", "ms"], 1e-3),
    (&["seconds", "second", "sec", "s", ""], 1.0),
    (&["minutes", "minute", "min", "m"], 60.0),
    (&["hours", "hour", "hr", "h"], 3_600.0),
    (&["days", "day", "d"], 86_400.0),
    (&["weeks", "week", "w"], 604_800.0),
    (&["months", "month", "M"], 2_629_800.0),
    (&["years", "year", "y"], 31_557_600.0),
];

/// None for what is no span, and for `infinity`.
pub(super) fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (amount, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let letters = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let (_, factor) = UNITS.iter().find(|(names, _)| names.contains(&unit))?;
        seconds += amount.parse::<f64>().ok()? * factor;
        rest = tail.trim_start();
    }
    Duration::try_from_secs_f64(seconds).ok()
}
