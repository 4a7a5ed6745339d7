//! Rules for single values.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde_json::Value;
use toml::de::DeValue;

use crate::definition::spec::names::{NAME_RULE, is_resource_name, is_user_name, variable_name};
use crate::definition::spec::needs::Rate;
use crate::document::{Reader, Wrong, closest, filled, one_of, require, size, text};
use crate::notify::{Topic, Url, email_address};
use crate::schedule::{CalendarDates, ParseContext, Schedule, ScheduleError};

/// An IANA zone that this machine knows.
pub(super) fn timezone(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    if TimeZone::get(&name).is_ok() {
        return Ok(name);
    }
    let known: Vec<String> = jiff::tz::db().available().map(|n| n.to_string()).collect();
    let fix = match closest(&name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if known.is_empty() => "this machine has no time zones: install tzdata".to_owned(),
        None => "use an IANA name such as \"Europe/Berlin\" or \"UTC\"".to_owned(),
    };
    Err(Wrong::new(format!("unknown time zone \"{name}\""), fix))
}

/// One cron expression, macro or interval. Each is checked by itself, so that every wrong one is reported.
pub(super) fn expression(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = filled(value)?;
    Schedule::parse(&[&text], &ParseContext::default()).map_err(|error| faulty(&text, &error))?;
    Ok(text)
}

fn faulty(text: &str, error: &ScheduleError) -> Wrong {
    let Some(at) = error.expression() else {
        return Wrong::new(error.to_string(), "see docs/reference/schedules.md");
    };
    let field = at.field.map_or_else(String::new, |field| format!("{field}, "));
    let start = text
        .char_indices()
        .nth(at.column - 1)
        .map_or(text.len(), |(byte, _)| byte);
    let length = text[start..]
        .find(char::is_whitespace)
        .unwrap_or(text.len() - start);
    Wrong {
        what: format!("{field}column {}: {}", at.column, at.problem),
        fix: at.fix.clone(),
        within: Some(start..start + length),
    }
}

pub(super) fn absolute_path(value: &DeValue<'_>) -> Result<String, Wrong> {
    let path = filled(value)?;
    let fix = "begin it with /: any node may run the job";
    require(path.starts_with('/'), format!("`{path}` is not absolute"), fix)?;
    Ok(path)
}

pub(super) fn user_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    let what = format!("`{name}` is not a valid user name");
    require(
        is_user_name(&name),
        what,
        "write a name from the nodes' user database",
    )?;
    Ok(name)
}

/// What a warden hands to a command at most.
const MAX_STDIN: usize = 1 << 20;

pub(super) fn stdin(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = text(value)?;
    let what = format!("it has {} bytes, 1 MiB is the most", text.len());
    require(
        text.len() <= MAX_STDIN,
        what,
        "put it into a file that the command reads",
    )?;
    Ok(text)
}

pub(super) fn umask(value: &DeValue<'_>) -> Result<u32, Wrong> {
    // A number may begin with a sign.
    let octal = value.as_str().filter(|octal| !octal.starts_with('+'));
    let mask = octal.and_then(|octal| u32::from_str_radix(octal, 8).ok());
    mask.filter(|mask| *mask <= 0o777)
        .ok_or_else(|| Wrong::new("not a valid umask", "write it as an octal string: \"022\""))
}

pub(super) fn memory(value: &DeValue<'_>) -> Result<u64, Wrong> {
    let bytes = size(value)?;
    let what = "nothing runs in less than 1MiB";
    require(bytes >= 1 << 20, what, "for example \"512MiB\"")?;
    Ok(bytes)
}

pub(super) fn environment(env: Reader<'_>) -> BTreeMap<String, String> {
    let sink = env.sink();
    let mut all = BTreeMap::new();
    for (name, value) in env.values(text) {
        if let Err(rule) = variable_name(&name) {
            sink.report(value.span, format!("`{name}` is not a valid variable name"), rule);
        }
        all.insert(name, value.value);
    }
    all
}

/// An address that a browser opens.
pub(super) fn web_address(value: &DeValue<'_>) -> Result<String, Wrong> {
    let example = "for example \"https://wiki.example.org/runbooks/import\"";
    let text = value.as_str().unwrap_or_default();
    let rest = (text.strip_prefix("https://")).or_else(|| text.strip_prefix("http://"));
    let good = rest.is_some_and(|rest| !rest.is_empty()) && !text.contains(char::is_whitespace);
    require(good, "not a web address", example)?;
    Ok(text.to_owned())
}

/// A value as it is stored.
pub(super) fn any(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::Boolean(b) => (*b).into(),
        DeValue::Integer(n) => {
            i64::from_str_radix(n.as_str(), n.radix()).map_or_else(|_| n.to_string().into(), Into::into)
        }
        DeValue::Float(n) => match n.as_str().parse::<f64>() {
            // The database gives it back without an exponent.
            Ok(n) if n.is_finite() && n.abs() >= 1e16 => n.to_string().parse().unwrap_or_else(|_| n.into()),
            Ok(n) if n.is_finite() => n.into(),
            // JSON has no infinity and no NaN. As text they are refused where a number is wanted.
            _ => n.as_str().into(),
        },
        DeValue::String(s) => s.as_ref().into(),
        DeValue::Datetime(d) => d.to_string().into(),
        other => other.type_str().into(),
    }
}

pub(super) fn rate(value: &DeValue<'_>) -> Result<String, Wrong> {
    let fix = "write how many starts in how much time: \"10/1m\"";
    let rate = filled(value)?.parse::<Rate>();
    rate.map(|rate| rate.to_string())
        .map_err(|what| Wrong::new(what, fix))
}

/// Names of pools and locks: they go into tables and messages.
pub(super) fn resource_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    let what = format!("\"{name}\" is not a valid name");
    require(is_resource_name(&name), what, NAME_RULE)?;
    Ok(name)
}

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
    if let Err(errors) = CalendarDates::parse(&[&entry]) {
        let mut wrong = (errors.into_iter()).map(|e| Wrong::new(format!("\"{entry}\" {}", e.problem), e.fix));
        return Err(wrong
            .next()
            .unwrap_or_else(|| Wrong::new("it is not a valid day", "write it as 2026-12-24")));
    }
    Ok(entry.split("..").map(str::trim).collect::<Vec<_>>().join(".."))
}

pub(super) fn url(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = filled(value)?;
    let example = "for example \"https://hooks.example.org/farm\"; a secret one goes into `webhook_file`";
    Url::parse(&text).map_err(|why| Wrong::new(why, example))?;
    Ok(text)
}

pub(super) fn address(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = filled(value)?;
    email_address(&text).map_err(|why| Wrong::new(why, "for example \"ops@example.org\""))?;
    Ok(text)
}

/// What a target may choose.
pub(super) fn topic(value: &DeValue<'_>) -> Result<String, Wrong> {
    one_of(&Topic::OFFERED.map(Topic::as_str))(value)
}

/// A file of the agents' directory of secrets. A name and no path: a job file must not make an agent read what
/// its author could not.
pub(super) fn file_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    let fix = "name a file in the agents' `secrets_dir`, without a path";
    require(is_resource_name(&name), "not a plain file name", fix)?;
    Ok(name)
}

/// As `ps` shows it.
pub(super) fn child_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    let fix = "write what `ps -o comm` shows: \"wget\"";
    require(!name.contains('/'), "it is a name, not a path", fix)?;
    Ok(name)
}
