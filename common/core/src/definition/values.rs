//! Rules for single values of calendars, targets and child limits. The rules of a job's own are in `check`.

use toml::de::DeValue;

use super::needs::is_resource_name;
use crate::document::{Wrong, filled, one_of};
use crate::notify::{Topic, Url, email_address};
use crate::schedule::CalendarDates;

/// One day or one range of days.
pub(super) fn days(value: &DeValue<'_>) -> Result<String, Wrong> {
    let entry = value
        .as_str()
        .map(str::to_owned)
        .or_else(|| value.as_datetime().map(ToString::to_string))
        .ok_or_else(|| {
            Wrong::new(
                format!("expected a day, found a {}", value.type_str()),
                "for example \"2026-12-24\" or \"2026-12-24..2026-12-26\"",
            )
        })?;
    match CalendarDates::parse(&[&entry]) {
        Ok(_) => Ok(entry.split("..").map(str::trim).collect::<Vec<_>>().join("..")),
        Err(errors) => Err(errors
            .into_iter()
            .next()
            .map(|e| Wrong::new(format!("\"{entry}\" {}", e.problem), e.fix))
            .unwrap_or_else(|| Wrong::new("it is not a valid day", "write it as 2026-12-24"))),
    }
}

pub(super) fn url(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = filled(value)?;
    match Url::parse(&text) {
        Ok(_) => Ok(text),
        Err(why) => Err(Wrong::new(
            why,
            "for example \"https://hooks.example.org/farm\"; a secret one goes into `webhook_file`",
        )),
    }
}

pub(super) fn address(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = filled(value)?;
    match email_address(&text) {
        Ok(()) => Ok(text),
        Err(why) => Err(Wrong::new(why, "for example \"ops@example.org\"")),
    }
}

/// What a target may choose.
pub(super) fn topic(value: &DeValue<'_>) -> Result<String, Wrong> {
    one_of(&Topic::OFFERED.map(Topic::as_str))(value)
}

/// A file of the agents' directory of secrets. A name and no path: a job file must not make an agent read what
/// its author could not.
pub(super) fn file_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    if is_resource_name(&name) {
        return Ok(name);
    }
    Err(Wrong::new(
        "not a plain file name",
        "name a file in the agents' `secrets_dir`, without a path",
    ))
}

/// As `ps` shows it.
pub(super) fn child_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    match name.contains('/') {
        true => Err(Wrong::new(
            "it is a name, not a path",
            "write what `ps -o comm` shows: \"wget\"",
        )),
        false => Ok(name),
    }
}
