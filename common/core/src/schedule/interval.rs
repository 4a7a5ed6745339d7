//! Durations as people write them: `90s`, `1h30m`, `1.5h`, `2 weeks`, `1min 30s`.

use super::error::Fault;

/// The units, in seconds.
const UNITS: &[(&[&str], u64)] = &[
    (&["s", "sec", "second", "seconds"], 1),
    (&["m", "min", "minute", "minutes"], 60),
    (&["h", "hr", "hour", "hours"], 3_600),
    (&["d", "day", "days"], 86_400),
    (&["w", "week", "weeks"], 7 * 86_400),
];

const FIX: &str = "write a duration such as 90s, 15m, 1h30m or 2d, in whole seconds, at most 366d";
const LONGEST: u64 = 366 * 86_400;

/// Whole seconds, 1 to 366 days. `at` is the text's place in its expression, in characters.
pub(super) fn parse(text: &str, at: usize) -> Result<i64, Fault> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(Fault::whole(at, "the interval is missing", FIX));
    }
    let mut thousandths: u64 = 0;
    while !rest.is_empty() {
        let place = at + text.chars().count() - rest.chars().count();
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (amount, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let letters = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let amount = in_thousandths(amount)
            .ok_or_else(|| Fault::whole(place, format!("{text:?} is not a valid duration"), FIX))?;
        let seconds = UNITS
            .iter()
            .find(|(names, _)| names.contains(&unit))
            .map(|(_, seconds)| seconds);
        let Some(seconds) = seconds else {
            return Err(Fault::whole(
                place,
                format!("{unit:?} is not a valid unit of time"),
                FIX,
            ));
        };
        thousandths = amount
            .checked_mul(*seconds)
            .and_then(|t| thousandths.checked_add(t))
            .unwrap_or(u64::MAX);
        rest = tail.trim_start();
    }
    let seconds = thousandths / 1000;
    if !thousandths.is_multiple_of(1000) || seconds == 0 || seconds > LONGEST {
        return Err(Fault::whole(
            at,
            format!("an interval of {} cannot be used", text.trim()),
            FIX,
        ));
    }
    // At most LONGEST.
    Ok(seconds as i64)
}

fn in_thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if text.ends_with('.') || fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    whole.checked_mul(1000)?.checked_add(fraction)
}
