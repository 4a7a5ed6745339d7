//! Durations such as `1h30m` and sizes such as `512MiB`.

use std::time::Duration;

/// A hundred years: far above any sense, far below any overflow.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

const DURATION_UNITS: [(&str, u64); 6] = [
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

const SIZE_UNITS: [(&str, u64); 10] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Reads one or more `<number><unit>` with units w d h m s ms, each unit once, largest first.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut rest = text;
    let mut millis: u64 = 0;
    let mut smallest = u64::MAX;
    if rest.is_empty() {
        return Err("it is empty".to_owned());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let (number, unit) = (&rest[..digits], &rest[digits..digits + letters]);
        if digits == 0 {
            return Err(format!("a number is missing before `{rest}`"));
        }
        if unit.is_empty() {
            return Err(format!("`{number}` has no unit"));
        }
        let Some((_, factor)) = DURATION_UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("there is no unit `{unit}`"));
        };
        if *factor >= smallest {
            return Err(format!("`{unit}` comes after a smaller or the same unit"));
        }
        smallest = *factor;
        millis = number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(*factor))
            .and_then(|n| n.checked_add(millis))
            .ok_or("it is too long")?;
        rest = &rest[digits + letters..];
    }
    let duration = Duration::from_millis(millis);
    if duration > LONGEST {
        return Err("it is more than a hundred years".to_owned());
    }
    Ok(duration)
}

/// Reads `<number><unit>`, unit one of B KiB MiB GiB TiB kB MB GB TB. Result in bytes, at most `i64::MAX`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("it does not begin with a number".to_owned());
    }
    if unit.is_empty() {
        return Err(format!("`{number}` has no unit"));
    }
    let Some((_, factor)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("there is no unit `{unit}`"));
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(*factor))
        .filter(|n| i64::try_from(*n).is_ok())
        .ok_or_else(|| "it is too large".to_owned())
}

/// Whole milliseconds; below one is cut off.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// So many milliseconds, as the database has them; nothing of a negative number.
pub fn from_millis(n: i64) -> Duration {
    Duration::from_millis(u64::try_from(n).unwrap_or(0))
}

/// The shortest text that [`parse_duration`] reads as this duration; below a millisecond is cut off.
pub fn duration_text(duration: Duration) -> String {
    let mut rest = millis(duration);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (name, factor) in &DURATION_UNITS[1..] {
        if rest >= *factor {
            out.push_str(&format!("{}{name}", rest / factor));
            rest %= factor;
        }
    }
    out
}

/// A size for people, in the largest binary unit that divides it.
pub fn size_text(bytes: u64) -> String {
    SIZE_UNITS[..5]
        .iter()
        .rev()
        .find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor))
        .map_or_else(
            || format!("{bytes}B"),
            |(name, factor)| format!("{}{name}", bytes / factor),
        )
}

/// A size for people who look at it: three digits or so.
pub fn size_about(bytes: u64) -> String {
    let unit = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = unit.into_iter().find(|(_, size)| bytes >= *size);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(name, size)| format!("{}.{} {name}", bytes / size, bytes % size * 10 / size),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis, canonical) in [
            ("90s", 90_000, "1m30s"),
            ("5m", 300_000, "5m"),
            ("1h30m", 5_400_000, "1h30m"),
            ("250ms", 250, "250ms"),
            ("1w", 604_800_000, "7d"),
            ("0s", 0, "0s"),
        ] {
            let d = parse_duration(text).unwrap();
            assert_eq!(d.as_millis(), millis, "{text}");
            assert_eq!(duration_text(d), canonical);
            assert_eq!(parse_duration(canonical).unwrap(), d);
        }
    }

    #[test]
    fn a_bad_duration_says_why() {
        for (text, why) in [
            ("", "empty"),
            ("90", "no unit"),
            ("5 m", "no unit"),
            ("m", "number is missing"),
            ("-5m", "number is missing"),
            ("5min", "no unit `min`"),
            ("5m1h", "after a smaller"),
            ("1m1m", "after a smaller"),
            ("99999999999999999999s", "too long"),
            ("9999w", "hundred years"),
        ] {
            let e = parse_duration(text).unwrap_err();
            assert!(e.contains(why), "{text:?}: {e}");
        }
    }

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("64kB"), Ok(64_000));
        assert_eq!(parse_size("0B"), Ok(0));
        assert_eq!(size_text(512 << 20), "512MiB");
        assert_eq!(size_text(64_000), "64000B");
        assert_eq!(
            [7, 64_000, 3 << 30].map(size_about),
            ["7 B", "62.5 KiB", "3.0 GiB"]
        );
        for bad in ["", "512", "MiB", "1.5GiB", "512 MiB", "512mb", "99999999TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
