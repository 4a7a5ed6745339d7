//! `CRON_TZ`, as glibc reads it.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The zone, with what to say of it where it is not the one that was named.
pub(super) fn zone(value: &str, local: &str) -> (String, Option<String>) {
    let name = value.trim_start_matches(':');
    let known = name == "UTC" || TimeZone::get(name).is_ok();
    if let Some(name) = known.then(|| name.to_owned()).or_else(|| same_offset(name)) {
        return (name, None);
    }
    let (zone, text) = match rules(name) {
        Some(_) => (
            local,
            format!(
                "CRON_TZ={value} is a rule and has no name, so the jobs below have {local}: write a `timezone` such as Europe/Berlin into them"
            ),
        ),
        None => (
            "UTC",
            format!(
                "CRON_TZ={value} is not a time zone that this machine knows; cron then uses UTC, and so do these jobs"
            ),
        ),
    };
    (zone.to_owned(), Some(text))
}

/// The zone of rules such as `CET-1CEST,M3.5.0,M10.5.0/3`. Those for summer may be missing: glibc has some.
fn rules(text: &str) -> Option<TimeZone> {
    let with_summer = format!("{text},M3.2.0,M11.1.0");
    let mut all = [text, &with_summer].into_iter();
    all.find_map(|text| TimeZone::posix(text).ok())
}

/// The name of a zone that is whole hours away from UTC, all year, as `JST-9` is. These names, too, count towards the west.
fn same_offset(text: &str) -> Option<String> {
    let zone = rules(text)?;
    let seconds = zone.to_offset(Timestamp::UNIX_EPOCH).seconds();
    let changes = zone.following(Timestamp::UNIX_EPOCH).next().is_some();
    let name = format!("Etc/GMT{:+}", -seconds / 3_600);
    (!changes && seconds % 3_600 == 0 && TimeZone::get(&name).is_ok()).then_some(name)
}
