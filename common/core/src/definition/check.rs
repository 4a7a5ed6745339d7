//! Rules for single values, and for a job as a whole.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::tz::TimeZone;
use serde_json::Value;
use toml::de::DeValue;

use super::{JobSpec, RunOn, placement};
use crate::document::{Reader, Wrong, closest, filled, size, text};
use crate::schedule::{ParseContext, Schedule, ScheduleError};

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

pub fn is_user_name(name: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == ':' || c == '/';
    !name.is_empty() && !name.contains(odd) && !name.starts_with('-')
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

/// The environment variable of a parameter: `FARMHAND_PARAM_` and its name in capitals, `-` as `_`.
pub fn param_variable(name: &str) -> String {
    format!("FARMHAND_PARAM_{}", name.replace('-', "_").to_ascii_uppercase())
}

/// The agent's own variables are not a job's to set: the command must be able to trust them.
///
/// # Errors
/// The rule that it breaks.
pub fn variable_name(name: &str) -> Result<(), &'static str> {
    if name.starts_with("FARMHAND_") {
        return Err("names with FARMHAND_ are the agent's: choose another, or use `params`");
    }
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if good {
        Ok(())
    } else {
        Err("use letters, digits and `_`, no digit first")
    }
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

/// What no single key can tell.
pub(super) fn whole(job: &mut Reader<'_>, spec: &JobSpec, name: &Range<usize>) {
    let sink = job.sink();
    let kinds = ["command", "task", "flow"];
    let mut present = kinds
        .iter()
        .filter_map(|key| job.key_span(key).map(|span| (key, span)));
    match (present.next(), present.next()) {
        (None, _) => sink.report(
            name.clone(),
            "the job has nothing to run",
            "add `command`, for example command = [\"/usr/bin/true\"]",
        ),
        (Some((first, _)), Some((second, span))) => sink.report(
            span,
            format!("`{second}` and `{first}` exclude each other"),
            "keep one of them, or make two jobs",
        ),
        (Some(_), None) => {}
    }
    if let (Some(start), Some(end)) = (&spec.start, &spec.end)
        && start.parse::<jiff::Timestamp>().ok() >= end.parse::<jiff::Timestamp>().ok()
        && let Some(span) = job.key_span("end")
    {
        sink.report(
            span,
            "`end` is not after `start`",
            "no instant lies between them: swap them?",
        );
    }
    boot(job, spec);
    placement::check(job, &spec.placement);
    params(job, spec);
}

/// A boot is a node's own, so is what it fires.
fn boot(job: &mut Reader<'_>, spec: &JobSpec) {
    let at_boot = spec.schedule.iter().any(|text| {
        Schedule::parse(&[text], &ParseContext::default()).is_ok_and(|schedule| schedule.fires_at_boot())
    });
    if at_boot
        && spec.run_on != RunOn::EachNode
        && let Some(found) = job.raw("schedule")
    {
        job.sink().report(
            found.span,
            "`schedule`: @reboot fires once per boot of each node",
            "add run_on = \"each-node\", and `where` for some nodes only",
        );
    }
}

fn params(job: &mut Reader<'_>, spec: &JobSpec) {
    let sink = job.sink();
    let Some(span) = job.key_span("params") else {
        return;
    };
    if spec.table.is_some() && spec.params.contains_key("key") {
        sink.report(
            span.clone(),
            "`{key}` is the row's key in a table job",
            "rename the parameter",
        );
    }
    let mut variables: Vec<String> = spec.params.keys().map(|p| param_variable(p)).collect();
    variables.sort_unstable();
    if let Some(twice) = variables.windows(2).find(|w| w[0] == w[1]) {
        sink.report(
            span.clone(),
            format!("two parameters share the variable {}", twice[0]),
            "rename one of them",
        );
    }
    let needed = spec
        .params
        .iter()
        .find(|(_, p)| p.required && p.default.is_none());
    let nobody = match (&spec.table, spec.schedule.is_empty()) {
        (Some(_), _) => Some(("a row", "give it a default: a row gives its key and nothing else")),
        (None, false) => Some(("the schedule", "give it a default, or leave the schedule out")),
        (None, true) => None,
    };
    if let (Some((name, _)), Some((who, fix))) = (needed, nobody) {
        sink.report(
            span,
            format!("parameter `{name}` is required, and {who} gives none"),
            fix,
        );
    }
}
