//! Instants that people write.

use farmhand_core::document::parse_duration;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::Refusal;

/// An RFC 3339 instant, or a date or date-time on the zone's clock.
pub fn moment(flag: &str, text: &str, zone: &TimeZone) -> Result<Timestamp, Refusal> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant);
    }
    let local = text.parse::<DateTime>().ok().and_then(|t| zone.to_zoned(t).ok());
    local.map(|t| t.timestamp()).ok_or_else(|| {
        Refusal::usage(format!("{flag} {text:?} is not a valid time"))
            .next("write 2026-03-29T01:00:00Z, 2026-03-29T01:00 or 2026-03-29")
    })
}

/// As [`moment`], or a duration: so long ago.
pub fn past_moment(flag: &str, text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, Refusal> {
    match parse_duration(text) {
        Ok(ago) => now
            .checked_sub(ago)
            .map_err(|_| Refusal::usage(format!("{flag} {text:?} is too long ago"))),
        Err(_) => moment(flag, text, zone).map_err(|refusal| {
            refusal.next("write how long ago (8h, 3d), or a time: 2026-03-29T01:00 or 2026-03-29")
        }),
    }
}
