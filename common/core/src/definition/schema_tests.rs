use std::collections::BTreeSet;

use serde_json::Value;

use super::{json_schema, load};
use crate::document::{Located, Source};

fn mistakes(text: &str) -> Vec<Located> {
    let source = Source {
        name: "j".to_owned(),
        text: text.to_owned(),
    };
    load(&[source]).map_or_else(|mistakes| mistakes.located(), |_| Vec::new())
}

/// The keys of a table as the reader itself lists them.
fn known(text: &str) -> BTreeSet<String> {
    let found = mistakes(text);
    let (_, list) = (found.iter())
        .find_map(|l| l.fix.split_once("the keys here are "))
        .unwrap_or_else(|| panic!("{text}: {found:#?}"));
    list.split(", ").map(str::to_owned).collect()
}

fn keys(schema: &Value) -> BTreeSet<String> {
    schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
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

#[test]
fn the_schema_has_the_keys_that_the_reader_takes_and_no_others() {
    let schema = json_schema();
    let job = &schema["properties"]["job"]["additionalProperties"];
    let unknown = "qqqqqqqqqqqqqqqqqqqq = 1";
    let tables = [
        (&schema, format!("{unknown}\n")),
        (job, format!("[job.a]\ncommand = 'x'\n{unknown}\n")),
        (
            &job["properties"]["retry"],
            format!("[job.a]\ncommand = 'x'\n[job.a.retry]\n{unknown}\n"),
        ),
        (
            &job["properties"]["limits"],
            format!("[job.a]\ncommand = 'x'\n[job.a.limits]\n{unknown}\n"),
        ),
        (
            &job["properties"]["output"],
            format!("[job.a]\ncommand = 'x'\n[job.a.output]\n{unknown}\n"),
        ),
        (
            &job["properties"]["flow"]["anyOf"][1],
            format!("[job.a]\n[job.a.flow]\ndir = '/x'\n{unknown}\n"),
        ),
        (
            &job["properties"]["table"],
            format!("[job.a]\ncommand = 'x'\n[job.a.table]\n{unknown}\n"),
        ),
        (
            &job["properties"]["stream"],
            format!("[job.a]\ncommand = 'x'\n[job.a.stream]\n{unknown}\n"),
        ),
        (
            &job["properties"]["params"]["additionalProperties"],
            format!("[job.a]\ncommand = 'x'\n[job.a.params.p]\ntype = 'date'\n{unknown}\n"),
        ),
        (
            &schema["properties"]["calendar"]["additionalProperties"],
            format!("[calendar.c]\nexclude = []\n{unknown}\n"),
        ),
        (
            &schema["properties"]["pool"]["additionalProperties"],
            format!("[pool.p]\nsize = 1\n{unknown}\n"),
        ),
        (
            &schema["properties"]["notify"]["additionalProperties"],
            format!("[notify.n]\nemail = 'a@b'\n{unknown}\n"),
        ),
    ];
    for (table, text) in tables {
        let (known, listed) = (known(&text), keys(table));
        assert!(
            listed.is_subset(&known),
            "unknown to the reader: {:?}",
            listed.difference(&known)
        );
        let missing: Vec<&String> = known.difference(&listed).collect();
        assert!(missing.is_empty(), "the schema lacks {missing:?} of\n{text}");
    }
}

#[test]
fn what_the_schema_shows_is_accepted() {
    let schema = json_schema();
    let job = &schema["properties"]["job"]["additionalProperties"]["properties"];
    let check = |before: &str, table: &str, key: &str, value: &Value| {
        let command = match key {
            "flow" => "",
            "idle_exit" | "idle_delay" => "command = 'x'\nschedule = '@continuous'\n",
            "trigger_on" => "command = 'x'\ntriggered_by = 'b'\n",
            "preload" => "flow = '/x'\n",
            _ => "command = 'x'\n",
        };
        let text = format!(
            "[calendar.de]\nexclude = []\n[pool.mailer]\nsize = 1\n[pool.disk]\nsize = 1\n[notify.ops]\nemail = 'a@b'\n[job.a]\n{command}{before}{table}{key} = {}\n",
            toml_of(value)
        );
        let wrong = mistakes(&text);
        assert!(wrong.is_empty(), "{text}{wrong:#?}");
    };
    for (key, property) in job.as_object().unwrap() {
        let inner = property["properties"].as_object().filter(|_| key != "params");
        let shown = inner
            .into_iter()
            .flatten()
            .map(|(k, p)| (format!("[job.a.{key}]\n"), k, p));
        for (mut table, key, property) in shown.chain([(String::new(), key, property)]) {
            if table == "[job.a.table]\n" {
                let needed = ["name", "key", "dispatch"].iter().filter(|k| *k != key);
                table.extend(needed.map(|k| format!("{k} = '{k}_of_it'\n")));
            }
            if table == "[job.a.stream]\n" && !["file", "command"].contains(&key.as_str()) {
                table.push_str("file = '/l'\n");
            }
            for list in ["examples", "enum"] {
                for value in property[list].as_array().into_iter().flatten() {
                    check("", &table, key, value);
                }
            }
            for bound in ["minimum", "maximum", "default"] {
                if let Some(value) = property.get(bound) {
                    check("", &table, key, value);
                }
            }
        }
    }
}
