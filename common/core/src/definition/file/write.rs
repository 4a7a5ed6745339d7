//! The way back: stored definitions as a job file has them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use toml::Table;

use super::continuous::OWN_ABOUT_INSTANTS;
use super::keys::{JOB, Keys, Kind, NOTIFY};
use super::resources::PoolDefinition;
use super::vars::escape_variables;
use crate::continuous::BASE;
use crate::definition::spec::enabled::Enabled;
use crate::definition::spec::flow::{FlowSpec, TaskSpec};
use crate::definition::spec::job::JobSpec;
use crate::definition::spec::stream::StreamSpec;
use crate::definition::spec::table::{TableSpec, table_name};
use crate::document::{duration_text, size_text};
use crate::notify::TargetSpec;

/// A job file that defines these jobs as they are stored, with the pools and targets that they name.
pub fn job_file(
    jobs: &[(&str, &Value)],
    pools: &[PoolDefinition],
    targets: &[(&str, &TargetSpec)],
) -> String {
    let mut named = BTreeSet::new();
    let mut file = Map::new();
    for (name, spec) in jobs {
        for key in ["pool", "node_pool", "notify"] {
            named.extend(texts(spec, key).map(|name| (key == "notify", name)));
        }
        let tasks = spec.pointer("/flow/tasks").and_then(Value::as_object);
        let of_tasks = tasks
            .into_iter()
            .flatten()
            .flat_map(|(_, task)| texts(task, "pool"));
        named.extend(of_tasks.map(|name| (false, name)));
        let mut keys = job(spec);
        keys.as_object_mut().and_then(|keys| keys.remove("exclude"));
        put(&mut file, "job", name, keys);
    }
    for (name, days) in calendars(jobs) {
        put(&mut file, "calendar", name, json!({"exclude": days}));
    }
    for pool in pools
        .iter()
        .filter(|pool| named.contains(&(false, pool.name.as_str())))
    {
        put(&mut file, "pool", &pool.name, json!({"size": pool.size}));
    }
    for (name, spec) in targets.iter().filter(|(name, _)| named.contains(&(true, *name))) {
        let spec = serde_json::to_value(spec).unwrap_or_default();
        put(
            &mut file,
            "notify",
            name,
            of_keys(NOTIFY, &less::<TargetSpec>(&spec)),
        );
    }
    to_text(&Value::Object(file))
}

/// The keys of one job that are not as by default, as its file says them, and the days that its calendars exclude.
pub fn job_keys(spec: &Value) -> String {
    to_text(&job(spec))
}

fn to_text(value: &Value) -> String {
    let table = Table::try_from(escaped(value)).unwrap_or_default();
    toml::to_string_pretty(&table).unwrap_or_default()
}

/// No string of it is taken for a variable.
fn escaped(value: &Value) -> Value {
    match value {
        Value::String(text) => escape_variables(text).into(),
        Value::Array(list) => list.iter().map(escaped).collect(),
        Value::Object(keys) => (keys.iter())
            .map(|(key, value)| (key.clone(), escaped(value)))
            .collect(),
        other => other.clone(),
    }
}

fn put(file: &mut Map<String, Value>, section: &str, name: &str, value: Value) {
    let section = file.entry(section).or_insert_with(|| json!({}));
    section[name] = value;
}

/// A text, or a list of them.
pub(super) fn texts<'a>(spec: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    let value = spec.get(key);
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.chain(value).filter_map(Value::as_str)
}

/// The days of each calendar. What is stored with a job are the days of all calendars that it names: what its calendar
/// has is in each of them.
fn calendars<'a>(jobs: &[(&'a str, &'a Value)]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, spec) in jobs {
        let days: BTreeSet<&str> = texts(spec, "exclude").collect();
        for name in texts(spec, "calendars") {
            let known = found.entry(name).or_insert_with(|| days.clone());
            known.retain(|day| days.contains(day));
        }
    }
    found
}

fn job(spec: &Value) -> Value {
    let continuous = texts(spec, "schedule").any(|text| text.trim().eq_ignore_ascii_case("@continuous"));
    let mut default = JobSpec::default();
    if continuous {
        default.retry.base = BASE;
    }
    let mut keys = less_than(&default, spec);
    if keys.get("enabled") == Some(&Enabled::Observe.into()) {
        keys.remove("enabled");
        keys.insert("observe".to_owned(), true.into());
    }
    // Inherited, and without a meaning.
    keys.retain(|key, _| !continuous || !OWN_ABOUT_INSTANTS.contains(&key.as_str()));
    if let Some(mut flow) = keys.remove("flow").map(|flow| less::<FlowSpec>(&flow)) {
        flow.remove("pools");
        keys.extend(
            flow.remove("preload")
                .map(|library| ("preload".to_owned(), library)),
        );
        if let Some(Value::Object(tasks)) = flow.remove("tasks") {
            let task = |(name, task)| (name, Value::from(less::<TaskSpec>(&task)));
            keys.insert("task".to_owned(), tasks.into_iter().map(task).collect());
        }
        if flow.remove("missing_warns").is_some() {
            flow.insert("missing".to_owned(), "warn".into());
        }
        match (flow.len(), flow.get("dir")) {
            (0, _) => None,
            (1, Some(dir)) => keys.insert("flow".to_owned(), dir.clone()),
            _ => keys.insert("flow".to_owned(), flow.into()),
        };
    }
    if let Some(table) = keys.remove("table") {
        let part = |key| table.get(key).and_then(Value::as_str).unwrap_or("public");
        let name = table_name(part("schema"), part("name"));
        let mut table = less::<TableSpec>(&table);
        table.remove("schema");
        table.insert("name".to_owned(), name.into());
        keys.insert("table".to_owned(), table.into());
        // The reader sets it.
        keys.remove("overlap");
    }
    if let Some(stream) = keys.remove("stream") {
        let follow = stream.get("follow").cloned();
        let mut stream = less::<StreamSpec>(&stream);
        // Without the key a file may be followed.
        if stream.contains_key("file") {
            stream.extend(follow.map(|follow| ("follow".to_owned(), follow)));
        }
        let list = stream.remove("list");
        stream.extend(list.map(|command| ("command".to_owned(), command)));
        keys.insert("stream".to_owned(), stream.into());
    }
    of_keys(JOB, &keys)
}

/// What is not as in `D`'s default, and nothing that is null.
fn less<D: Serialize + Default>(spec: &Value) -> Map<String, Value> {
    less_than(&D::default(), spec)
}

fn less_than(default: &impl Serialize, spec: &Value) -> Map<String, Value> {
    let default = serde_json::to_value(default).unwrap_or_default();
    match difference(spec, &default) {
        Value::Object(keys) => keys,
        _ => Map::new(),
    }
}

fn difference(value: &Value, default: &Value) -> Value {
    let Value::Object(keys) = value else {
        return value.clone();
    };
    let differs =
        |(key, value): &(&String, &Value)| !value.is_null() && default.get(key.as_str()) != Some(*value);
    let keys = keys.iter().filter(differs);
    keys.map(|(key, value)| (key.clone(), difference(value, &default[key.as_str()])))
        .collect()
}

/// Stored values in the form that their keys have in files.
fn of_keys(known: &Keys, keys: &Map<String, Value>) -> Value {
    let kind = |name: &str| {
        known
            .keys
            .iter()
            .find(|key| key.name == name)
            .map(|key| &key.kind)
    };
    keys.iter()
        .map(|(name, value)| (name.clone(), as_in_files(kind(name), value)))
        .collect()
}

fn as_in_files(kind: Option<&Kind>, value: &Value) -> Value {
    let number = value.as_u64();
    match (kind, value) {
        (Some(Kind::Duration(_)), Value::Number(_)) => {
            duration_text(Duration::from_millis(number.unwrap_or(0))).into()
        }
        (Some(Kind::Mask), Value::Number(_)) => format!("{:03o}", number.unwrap_or(0)).into(),
        (Some(Kind::Size(_)), Value::Number(_)) => size_text(number.unwrap_or(0)).into(),
        (Some(Kind::Words(words)), Value::String(stored)) => {
            let word = words.iter().find(|word| word.replace('-', "_") == *stored);
            word.map_or_else(|| value.clone(), |word| (*word).into())
        }
        (Some(Kind::Table(_, keys) | Kind::TextOr(_, _, keys)), Value::Object(table)) => of_keys(keys, table),
        (Some(Kind::List(keys)), Value::Array(list)) => (list.iter())
            .map(|table| of_keys(keys, &less::<()>(table)))
            .collect(),
        (Some(Kind::Tables(keys)), Value::Object(tables)) => (tables.iter())
            .map(|(name, table)| (name.clone(), of_keys(keys, &less::<()>(table))))
            .collect(),
        _ => value.clone(),
    }
}
