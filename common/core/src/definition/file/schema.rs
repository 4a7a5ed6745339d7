//! The JSON Schema of job files, for editors.

use serde_json::{Map, Value, json};

use super::keys::{CALENDAR, JOB, Key, Keys, Kind, NOTIFY, OWN_KEYS, POOL};
use crate::definition::spec::job::JobSpec;

/// The schema, draft 2020-12.
pub fn json_schema() -> Value {
    let spec = serde_json::to_value(JobSpec::default()).unwrap_or(Value::Null);
    let mut job = table(JOB, Some(&spec));
    job["oneOf"] = json!([{"required": ["command"]}, {"required": ["task"]}, {"required": ["flow"]}]);
    job["properties"]["params"]["additionalProperties"]["required"] = json!(["type"]);
    let inherited = JOB.keys.iter().filter(|key| !OWN_KEYS.contains(&key.name));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Farmhand job file",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "defaults": of_keys(inherited, None),
            "job": {
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
                "additionalProperties": job,
            },
            "vars": {
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "additionalProperties": {"type": ["string", "integer", "boolean"]},
            },
            "calendar": {"type": "object", "additionalProperties": table(CALENDAR, None)},
            "pool": {"type": "object", "additionalProperties": table(POOL, None)},
            "notify": {"type": "object", "additionalProperties": table(NOTIFY, None)},
        },
    })
}

/// A string that is one variable stands for a value of any type.
const VARIABLE: &str = r"\$\{vars\.[A-Za-z_][A-Za-z0-9_]*\}";

fn table(keys: &Keys, defaults: Option<&Value>) -> Value {
    of_keys(keys.keys.iter(), defaults)
}

fn of_keys<'a>(keys: impl Iterator<Item = &'a Key>, defaults: Option<&Value>) -> Value {
    let properties: Map<String, Value> = keys
        .map(|key| (key.name.to_owned(), property(key, defaults)))
        .collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn property(key: &Key, defaults: Option<&Value>) -> Value {
    let one_of = |form: &str| format!("^({form}|{VARIABLE})$");
    let variable = format!("^{VARIABLE}$");
    let mut value = match &key.kind {
        Kind::Text([], _) => json!({"type": "string"}),
        Kind::Text(examples, _) => json!({"type": "string", "examples": examples}),
        Kind::Mask => json!({"type": "string", "examples": ["022"]}),
        Kind::Any => json!({}),
        Kind::Duration(_) => json!({"type": "string", "examples": ["90s", "1h30m"],
            "pattern": one_of("([0-9]+(w|d|h|ms|m|s))+")}),
        Kind::Size(_) => json!({"type": "string", "examples": ["512MiB"],
            "pattern": one_of("[0-9]+(B|[KMGT]iB|[kKMGT]B)")}),
        Kind::Boolean => json!({"type": ["boolean", "string"], "pattern": variable}),
        Kind::Integer(least, most) => {
            json!({"type": ["integer", "string"], "minimum": least, "maximum": most, "pattern": variable})
        }
        Kind::Words(words) => json!({"anyOf": [{"enum": words}, {"type": "string", "pattern": variable}]}),
        Kind::Texts(example, _) | Kind::Set(example, ..) => {
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            "examples": [example]})
        }
        Kind::Command => json!({"anyOf": [{"type": "string", "minLength": 1},
            {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
        Kind::Codes => {
            let code = json!({"type": "integer", "minimum": 1, "maximum": 255});
            json!({"anyOf": [code.clone(), {"type": "array", "items": code}], "examples": [[250]]})
        }
        Kind::Instant => json!({"type": "string", "examples": ["2026-12-01", "2026-12-01T08:00:00Z"]}),
        Kind::Labels => {
            let value = json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]});
            json!({"type": "object", "additionalProperties": value})
        }
        Kind::Strings(_) => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Kind::Table(_, keys) => table(keys, None),
        Kind::TextOr(example, _, keys) => {
            json!({"anyOf": [{"type": "string"}, table(keys, None)], "examples": [example]})
        }
        Kind::List(keys) => json!({"type": "array", "items": table(keys, None)}),
        Kind::Tables(keys) => json!({"type": "object", "additionalProperties": table(keys, None)}),
    };
    value["description"] = key.doc.into();
    // Where the file's form is the stored form.
    let plain = matches!(key.kind, Kind::Words(_) | Kind::Boolean | Kind::Integer(..));
    if let Some(default) = defaults
        .and_then(|d| d.get(key.name))
        .filter(|d| plain && !d.is_null())
    {
        value["default"] = default.clone();
    }
    value
}
