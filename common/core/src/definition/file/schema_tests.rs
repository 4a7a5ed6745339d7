use serde_json::Value;

use super::keys::{CALENDAR, JOB, Key, Keys, Kind, NOTIFY, POOL};
use crate::definition::{job_file, json_schema, load_all};
use crate::document::{Located, Source};

fn mistakes(text: &str) -> Vec<Located> {
    let source = Source {
        name: "j".to_owned(),
        text: text.to_owned(),
    };
    load_all(&[source]).map_or_else(|mistakes| mistakes.located(), |_| Vec::new())
}

fn toml_of(value: &Value) -> String {
    match value {
        Value::String(s) => format!("'{s}'"),
        other => other.to_string(),
    }
}

#[test]
fn the_schema_in_the_repository_is_the_one_of_this_version() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/job.schema.json"
    );
    let text = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == text,
        "docs/reference/job.schema.json is stale: run this test once with UPDATE_SCHEMA=1 and commit the file"
    );
}

/// Every table of a job file: how it begins in a file that is right without further keys, and what it may hold.
fn tables() -> Vec<(String, &'static Keys)> {
    let mut all = vec![
        ("[calendar.c]\n".to_owned(), CALENDAR),
        ("[pool.p]\n".to_owned(), POOL),
        ("[notify.n]\n".to_owned(), NOTIFY),
        ("[job.a]\n".to_owned(), JOB),
    ];
    for Key { name, kind, .. } in JOB.keys {
        match kind {
            Kind::Table(_, keys) | Kind::TextOr(_, _, keys) => all.push((format!("[job.a.{name}]\n"), keys)),
            Kind::Tables(keys) => all.push((format!("[job.a.{name}.x]\n"), keys)),
            Kind::List(keys) => all.push((format!("[[job.a.{name}]]\n"), keys)),
            _ => {}
        }
    }
    all
}

#[test]
fn a_key_with_a_value_of_another_kind_is_refused_by_name() {
    for (table, keys) in tables() {
        for Key { name, kind, .. } in keys.keys {
            let found = mistakes(&format!("{table}{name} = 1.5\n"));
            let refused = (found.iter()).any(|found| found.what.starts_with(&format!("`{name}`: ")));
            assert_eq!(refused, !matches!(kind, Kind::Any), "{table}{name}: {found:#?}");
            assert!(
                !found.iter().any(|found| found.what.contains("unknown key")),
                "{table}{name}"
            );
        }
    }
}

#[test]
fn a_key_that_is_not_in_the_table_is_refused_with_those_that_are() {
    for (table, keys) in tables() {
        let found = mistakes(&format!("{table}qqqqqqqqqqqqqqqqqqqq = 1.5\n"));
        let mut names: Vec<&str> = keys.keys.iter().map(|key| key.name).collect();
        names.sort_unstable();
        let fix = format!("the keys here are {}", names.join(", "));
        assert!(found.iter().any(|found| found.fix == fix), "{table}{found:#?}");
        for (word, hint) in keys.hints {
            let found = mistakes(&format!("{table}{word} = 1.5\n"));
            assert!(
                found.iter().any(|found| found.fix == *hint),
                "{table}{word}: {found:#?}"
            );
        }
    }
}

/// Whether a key's value is stored, and stands in the file that is made of what is stored.
fn comes_back(table: &str, key: &str, value: &Value) -> bool {
    let what = match key {
        _ if table.starts_with("[job.a.flow]") => "",
        "flow" => "",
        "idle_exit" | "idle_delay" => "command = 'x'\nschedule = '@continuous'\n",
        "trigger_on" => "command = 'x'\ntriggered_by = 'b'\n",
        "preload" => "flow = '/x'\n",
        _ => "command = 'x'\n",
    };
    let text = format!(
        "[calendar.de]\nexclude = []\n[pool.mailer]\nsize = 1\n[pool.disk]\nsize = 1\n[notify.ops]\nemail = 'a@b'\n[job.a]\n{what}{table}{key} = {}\n",
        toml_of(value)
    );
    let source = Source {
        name: "j".to_owned(),
        text: text.clone(),
    };
    let all = load_all(&[source]).unwrap_or_else(|wrong| panic!("{text}{wrong}"));
    let spec = serde_json::to_value(&all.jobs[0].spec).unwrap();
    let file: toml::Table = job_file(&[("a", &spec)], &[], &[]).parse().unwrap();
    let section = table.lines().next().unwrap_or("[job.a]");
    let mut inside = Some(&file["job"]["a"]);
    for part in section.trim_matches(['[', ']']).split('.').skip(2) {
        inside = inside.and_then(|table| table.get(part));
    }
    inside.is_some_and(|table| table.get(key).is_some())
}

#[test]
fn what_the_schema_shows_is_accepted_stored_and_written_back() {
    let schema = json_schema();
    let job = &schema["properties"]["job"]["additionalProperties"]["properties"];
    for (key, property) in job.as_object().unwrap() {
        let inner = [&property["properties"], &property["anyOf"][1]["properties"]];
        let inner = inner.into_iter().filter_map(Value::as_object).flatten();
        let inner = inner.map(|(k, p)| (format!("[job.a.{key}]\n"), k, p));
        for (mut table, key, property) in inner.chain([(String::new(), key, property)]) {
            match table.as_str() {
                "[job.a.table]\n" => {
                    let needed = ["name", "key", "dispatch"].iter().filter(|k| *k != key);
                    table.extend(needed.map(|k| format!("{k} = '{k}_of_it'\n")));
                }
                "[job.a.stream]\n" if !["file", "command"].contains(&key.as_str()) => {
                    table.push_str("file = '/l'\n");
                }
                // With a directory and nothing else it is written as a string.
                "[job.a.flow]\n" if key == "dir" => table.push_str("stop = true\n"),
                "[job.a.flow]\n" => table.push_str("dir = '/x'\n"),
                _ => {}
            }
            let lists = [&property["examples"], &property["anyOf"][0]["enum"]].map(Value::as_array);
            let mut shown: Vec<Value> = lists.into_iter().flatten().flatten().cloned().collect();
            shown.extend(
                ["minimum", "maximum", "default"]
                    .iter()
                    .filter_map(|bound| property.get(bound).cloned()),
            );
            if property["type"][0] == "boolean" {
                shown.extend([Value::Bool(false), Value::Bool(true)]);
            }
            let back = shown
                .iter()
                .filter(|value| comes_back(&table, key, value))
                .count();
            assert!(back > 0 || shown.is_empty(), "{table}{key}: {shown:?}");
        }
    }
}
