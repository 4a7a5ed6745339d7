use farmhand_core::attempt::Claimed;
use farmhand_core::definition::{Command, JobSpec};
use farmhand_core::lease::BootInstant;
use serde_json::{Value, json};

use super::{Assignment, request};
use crate::wire::SpawnRequest;

/// What the warden makes of a definition and of what the database says of its run.
fn made(spec: Value, more: Value) -> Result<SpawnRequest, String> {
    let mut run = json!({"run_id": 1, "job_id": "j", "rev": 1, "kind": "table", "instance": 3, "instances": 4,
        "due_at": "2026-11-25T01:00:00Z", "ready_at": "2026-11-25T01:00:00Z", "attempt": 1, "fence": 1, "retries": 0,
        "takeovers": 0, "priority": 0, "params": {}, "spec": null, "claimed_at": "2026-11-25T01:00:00Z"});
    let more = more.as_object().unwrap().clone();
    run.as_object_mut().unwrap().extend(more);
    let run: Claimed = serde_json::from_value(run).unwrap();
    let spec: JobSpec = serde_json::from_value(spec).unwrap();
    let mut assignment = Assignment::new(&run, spec, 1);
    assignment.slot = Some(2);
    request(&run, &assignment, "n1", BootInstant(0), run.due_at)
}

fn argv(spec: &Value, more: Value) -> Result<Vec<String>, String> {
    match made(spec.clone(), more)?.command {
        Command::Argv(argv) => Ok(argv),
        other => panic!("{other:?}"),
    }
}

#[test]
fn placeholders_are_numbers_and_an_instant_and_nothing_that_begins_with_a_dash() {
    let spec = json!({"command": ["x", "{instance}", "{slot}", "{due}"]});
    let words = argv(&spec, json!({})).unwrap();
    assert_eq!(words, ["x", "3", "2", "2026-11-25T01:00:00Z"]);
    for odd in [
        json!({"instance": -1}),
        json!({"due_at": "-000043-03-15T00:00:00Z"}),
    ] {
        assert!(
            argv(&spec, odd.clone()).unwrap_err().contains("negative"),
            "{odd}"
        );
    }
}

#[test]
fn a_key_is_an_argument_and_an_option_of_nothing() {
    let table =
        |command: Value| json!({"command": command, "table": {"name": "t", "key": "k", "dispatch": "d"}});
    for (command, key, made) in [
        (json!(["tar", "xf"]), "a", Some(&["tar", "xf", "a"][..])),
        (json!(["tar", "xf"]), "-a", None),
        (json!(["tar", "{key}", "--", "b"]), "-a", None),
        (
            json!(["tar", "--", "{key}", "b"]),
            "-a",
            Some(&["tar", "--", "-a", "b"]),
        ),
        (json!(["tar", "--"]), "-a", Some(&["tar", "--", "-a"])),
        (
            json!("echo $1"),
            "-a",
            Some(&["/bin/sh", "-c", "echo $1", "/bin/sh", "-a"]),
        ),
    ] {
        let words = argv(&table(command.clone()), json!({"key": key}));
        match made {
            Some(made) => assert_eq!(words.unwrap(), made),
            None => assert!(words.unwrap_err().contains("begins with `-`"), "{command}"),
        }
    }
}

#[test]
fn a_row_has_the_columns_that_the_definition_names_whatever_the_database_adds() {
    let spec = json!({"command": "x", "params": {"p": {"type": "string", "default": "d", "required": false}},
        "table": {"name": "t", "key": "k", "dispatch": "d", "row": ["a", "b"]}});
    let given = json!({"key": "1", "params": {"b": null, "a": 1, "p": "evil", "c": "evil"}});
    let env = made(spec.clone(), given).unwrap().env;
    assert_eq!(env["FARMHAND_ROW"], r#"{"a":1,"b":null}"#);
    assert_eq!(
        (env["FARMHAND_PARAM_P"].as_str(), env["FARMHAND_PARAMS"].as_str()),
        ("d", r#"{"p":"d"}"#)
    );
    for lacks in [
        json!({}),
        json!({"a": 1}),
        json!({"a": "x".repeat(70_000), "b": 1}),
    ] {
        let why = made(spec.clone(), json!({"key": "1", "params": lacks})).unwrap_err();
        assert!(why.contains("more than 65536 bytes"), "{why}");
    }
    let none = json!({"command": "x", "table": {"name": "t", "key": "k", "dispatch": "d"}});
    let env = made(none, json!({"key": "1", "params": {"a": 1}})).unwrap().env;
    assert!(!env.contains_key("FARMHAND_ROW"));
}

#[test]
fn the_tasks_of_a_flow_have_the_grace_of_their_job() {
    let spec = json!({"flow": {"tasks": {"a": {"command": ["true"]}}}, "grace": 120_000});
    let words = argv(&spec, json!({})).unwrap();
    assert_eq!(words[4..], ["--grace", "120000ms"]);
}

/// Rows of the database say which tasks are done, and no signature covers these.
#[test]
fn a_signed_flow_skips_tasks_only_where_what_was_signed_says_so() {
    let signed = json!({"signed": {"document": "", "signature": "", "key": "alice"}, "done": ["a"]});
    let unsigned = json!({"done": ["a"]});
    for (resume, more, done, again) in [
        ("restart", &signed, json!([]), json!(["a"])),
        ("skip_finished", &signed, json!(["a"]), json!([])),
        ("restart", &unsigned, json!(["a"]), json!([])),
    ] {
        let spec = json!({"flow": {"tasks": {"a": {"command": ["true"]}}}, "resume": resume});
        let handed = made(spec, more.clone()).unwrap().stdin.unwrap();
        let handed: Value = serde_json::from_slice(&handed).unwrap();
        assert_eq!(
            (&handed["done"], &handed["again"]),
            (&done, &again),
            "{resume} {more}"
        );
    }
}
