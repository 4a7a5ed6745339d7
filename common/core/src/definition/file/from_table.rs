//! From a table of a file to the form in which it is stored, as the table of keys says.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Map, Value};
use toml::de::DeValue;

use super::keys::{Key, Keys, Kind};
use super::placement::label;
use super::value_rules::{any, umask};
use crate::document::{Reader, Spanned, Wrong, boolean, filled, integer, millis, one_of, text};

/// Reads all keys of a table, and reports the unknown ones. What is wrong has been reported and is left out.
pub(super) fn stored(table: &mut Reader<'_>, keys: &Keys) -> Value {
    let mut read = Map::new();
    for Key { name, kind, .. } in keys.keys {
        let value = match kind {
            Kind::Text(_, rule) => one(table, name, rule),
            Kind::Texts(_, rule) => list(table, name, rule),
            Kind::Set(_, rule, once) => set(table, name, rule, once),
            Kind::Duration(rule) => one(table, name, |value| rule(value).map(millis)),
            Kind::Size(rule) => one(table, name, rule),
            Kind::Boolean => one(table, name, boolean),
            Kind::Integer(least, most) => one(table, name, integer(*least..=*most)),
            Kind::Words(words) => one(table, name, one_of(words)),
            Kind::Command => command(table, name),
            Kind::Codes => list(table, name, integer(1..=255)),
            Kind::Mask => one(table, name, umask),
            Kind::Instant => {
                let zone = read.get("timezone").and_then(Value::as_str).unwrap_or("UTC");
                one(table, name, |value| instant(value, zone))
            }
            Kind::Any => one(table, name, |value| Ok(any(value))),
            Kind::Labels => (table.table(name)).map(|table| {
                let labels = table.values(label).into_iter();
                labels.map(|(name, found)| (name, found.value)).collect()
            }),
            Kind::Strings(strings) => table
                .table(name)
                .map(|table| strings(table).into_iter().collect()),
            Kind::Table(inside, keys) => table
                .table_like(name, inside)
                .map(|mut table| stored(&mut table, keys)),
            Kind::TextOr(_, rule, keys) => match table.raw(name).map(|found| found.value) {
                Some(DeValue::Table(_)) => table.table(name).map(|mut table| stored(&mut table, keys)),
                _ => one(table, name, rule)
                    .map(|text| Map::from_iter([(keys.keys[0].name.to_owned(), text)]).into()),
            },
            // Their names, or what else they hold, is for who knows them.
            Kind::List(_) | Kind::Tables(_) => table.raw(name).and(None),
        };
        read.extend(value.map(|value| ((*name).to_owned(), value)));
    }
    table.finish(keys.hints);
    read.into()
}

/// What was read, as the type that is stored.
pub(super) fn parsed<T: for<'de> Deserialize<'de> + Default>(table: &Reader<'_>, stored: &Value) -> T {
    T::deserialize(stored).unwrap_or_else(|error| {
        let what = format!("this version of farmhand cannot store what it read: {error}");
        table.sink().report(0..0, what, "report it with this file");
        T::default()
    })
}

/// Both.
pub(super) fn read<T: for<'de> Deserialize<'de> + Default>(table: &mut Reader<'_>, keys: &Keys) -> T {
    let stored = stored(table, keys);
    parsed(table, &stored)
}

fn one<T: Into<Value>>(
    table: &mut Reader<'_>,
    key: &'static str,
    rule: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
) -> Option<Value> {
    table.read(key, rule).map(|found| found.value.into())
}

fn list<T: Into<Value>>(
    table: &mut Reader<'_>,
    key: &'static str,
    rule: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
) -> Option<Value> {
    let found = table.list(key, true, rule)?;
    Some(found.into_iter().map(|found| found.value).collect())
}

fn set(
    table: &mut Reader<'_>,
    key: &'static str,
    rule: impl Fn(&DeValue<'_>) -> Result<String, Wrong>,
    once: &str,
) -> Option<Value> {
    let mut all: Vec<String> = Vec::new();
    for Spanned { value, span } in table.list(key, true, rule)? {
        if all.contains(&value) {
            let what = format!("`{key}`: \"{value}\" is named twice");
            table.sink().report(span, what, once);
        } else {
            all.push(value);
        }
    }
    // The order says nothing, so a new order is no new definition.
    all.sort_unstable();
    Some(all.into())
}

fn command(table: &mut Reader<'_>, key: &'static str) -> Option<Value> {
    if table.raw(key)?.value.is_array() {
        let words = table.list(key, false, text)?;
        return Some(words.into_iter().map(|found| found.value).collect());
    }
    one(table, key, |value| {
        filled(value).map_err(|wrong| Wrong {
            fix: "write [\"program\", \"argument\"], or a string for /bin/sh -c".to_owned(),
            ..wrong
        })
    })
}

/// A date, a local time (both in the job's zone) or an instant, as RFC 3339 in UTC.
fn instant(value: &DeValue<'_>, zone: &str) -> Result<String, Wrong> {
    let written = value
        .as_str()
        .map(str::to_owned)
        .or_else(|| value.as_datetime().map(ToString::to_string))
        .unwrap_or_default();
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let local = |t: DateTime| zone.to_timestamp(t).ok();
    let found = written
        .parse::<jiff::Timestamp>()
        .ok()
        .or_else(|| written.parse::<DateTime>().ok().and_then(local))
        .or_else(|| {
            written
                .parse::<Date>()
                .ok()
                .map(|d| d.at(0, 0, 0, 0))
                .and_then(local)
        });
    found.map(|t| t.to_string()).ok_or_else(|| {
        Wrong::new(
            "not a point in time",
            "for example \"2026-12-01\", \"2026-12-01T08:00:00\" (both in the job's zone) or \"2026-12-01T08:00:00Z\"",
        )
    })
}
