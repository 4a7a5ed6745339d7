//! Rules for single values.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde_json::Value;
use toml::de::DeValue;

use crate::definition::spec::names::{NAME_RULE, is_resource_name, is_user_name, variable_name};
use crate::definition::spec::needs::Rate;
use crate::document::{Reader, Wrong, closest, filled, one_of, size, text};
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
    filled(value).and_then(|path| {
        if path.starts_with('/') {
            Ok(path)
        } else {
            Err(Wrong::new(
                format!("`{path}` is not absolute"),
                "begin it with /: any node may run the job",
            ))
        }
    })
}

pub(super) fn user_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    filled(value).and_then(|name| {
        if !is_user_name(&name) {
            Err(Wrong::new(
                format!("`{name}` is not a valid user name"),
                "write a name from the nodes' user database",
            ))
        } else {
            Ok(name)
        }
    })
}

/// What a warden hands to a command at most.
const MAX_STDIN: usize = 1 << 20;

pub(super) fn stdin(value: &DeValue<'_>) -> Result<String, Wrong> {
    text(value).and_then(|s| {
        if s.len() > MAX_STDIN {
            let what = format!("it has {} bytes, 1 MiB is the most", s.len());
            Err(Wrong::new(what, "put it into a file that the command reads"))
        } else {
            Ok(s)
        }
    })
}

pub(super) fn umask(value: &DeValue<'_>) -> Result<u32, Wrong> {
    let wrong = || Wrong::new("not a valid umask", "write it as an octal string: \"022\"");
    let octal = value.as_str().ok_or_else(wrong)?;
    if octal.is_empty() || !octal.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
        return Err(wrong());
    }
    u32::from_str_radix(octal, 8)
        .ok()
        .filter(|mask| *mask <= 0o777)
        .ok_or_else(wrong)
}

pub(super) fn memory(value: &DeValue<'_>) -> Result<u64, Wrong> {
    size(value).and_then(|bytes| {
        if bytes < 1 << 20 {
            Err(Wrong::new(
                "nothing runs in less than 1MiB",
                "for example \"512MiB\"",
            ))
        } else {
            Ok(bytes)
        }
    })
}

/// Variables of a command.
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
    let wrong = || {
        Wrong::new(
            "not a web address",
            "for example \"https://wiki.example.org/runbooks/import\"",
        )
    };
    let text = value.as_str().ok_or_else(wrong)?;
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !text.contains(char::is_whitespace) => Ok(text.to_owned()),
        _ => Err(wrong()),
    }
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

/// A rate, as the file has it.
pub(super) fn rate(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = filled(value)?;
    match text.parse::<Rate>() {
        Ok(rate) => Ok(rate.to_string()),
        Err(what) => Err(Wrong::new(
            what,
            "write how many starts in how much time: \"10/1m\"",
        )),
    }
}

/// Names of pools and locks: they go into tables and messages.
pub(super) fn resource_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    if is_resource_name(&name) {
        return Ok(name);
    }
    Err(Wrong::new(format!("\"{name}\" is not a valid name"), NAME_RULE))
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
