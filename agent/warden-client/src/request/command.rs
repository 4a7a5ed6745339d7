//! What a definition says to execute, as far as anything could.

use farmhand_core::definition::{Command, JobSpec, MAX_ROW, secret_name, variable_name};
use serde_json::{Map, Value};

/// The kernel takes 128 KiB for one argument or variable, `FARMHAND_KEY=` and a NUL included.
const MAX_KEY: usize = 128 * 1024 - 16;

/// What a job file cannot say, and a row of the database can: no attempt could ever start, here or anywhere.
pub(super) fn well_formed(spec: &JobSpec) -> Result<(), String> {
    let nothing = match &spec.command {
        Some(Command::Argv(argv)) => argv.first().is_none_or(String::is_empty),
        Some(Command::Shell(script)) => script.trim().is_empty(),
        None => false,
    };
    if nothing {
        return Err("the job's command is empty".to_owned());
    }
    let tasks = spec.flow.iter().flat_map(|flow| flow.tasks.values());
    let variables = tasks.flat_map(|task| task.env.keys()).chain(spec.env.keys());
    for name in variables {
        variable_name(name).map_err(|rule| format!("the variable {name:?} is refused: {rule}"))?;
    }
    for name in spec.secrets.keys() {
        secret_name(name).map_err(|rule| format!("the secret {name:?} is refused: {rule}"))?;
    }
    // The output of failed lines is recorded by the engine, past what hides secrets.
    if spec.stream.is_some() && !spec.secrets.is_empty() {
        return Err("a stream cannot have secrets: the output of its failed lines is recorded".to_owned());
    }
    Ok(())
}

/// Whether the run has a row's key exactly when its job runs for a row.
pub fn key_fits(spec: &JobSpec, key: Option<&str>) -> Result<(), &'static str> {
    let takes_key = spec.table.is_some() && spec.flow.is_none() && spec.stream.is_none();
    match (takes_key, key) {
        (true, None) => Err("a table job runs for a row, and this run has none"),
        (false, Some(_)) => Err("the run has a row's key, and the job is not a table job"),
        (true, Some(_)) | (false, None) => Ok(()),
    }
}

/// A row's key is data: nothing that the command, as its definition has it, could take for an option.
pub(super) fn key_is_safe(command: &Command, key: &str) -> Result<(), String> {
    if key.len() > MAX_KEY {
        return Err(format!(
            "the row's key has {} bytes, {MAX_KEY} is the most that a command can be given",
            key.len()
        ));
    }
    if let Command::Argv(argv) = command
        && key.starts_with('-')
        && !argv
            .iter()
            .take_while(|word| *word != "{key}")
            .any(|word| word == "--")
    {
        return Err(
            "the row's key begins with `-`, and the command could take it for an option: put \"--\" before it \
             in `command`"
                .to_owned(),
        );
    }
    Ok(())
}

/// The columns of the row that the definition names, as JSON; none where it names none.
pub(super) fn row(spec: &JobSpec, given: &Map<String, Value>) -> Result<Option<String>, String> {
    let Some(table) = spec.table.as_ref().filter(|table| !table.row.is_empty()) else {
        return Ok(None);
    };
    let named = table
        .row
        .iter()
        .map(|name| Some((name.clone(), given.get(name)?.clone())));
    named
        .collect::<Option<Map<String, Value>>>()
        .map(|row| Value::Object(row).to_string())
        .filter(|text| text.len() <= MAX_ROW)
        .map(Some)
        .ok_or_else(|| {
            format!(
                "the run does not have the columns of the row that `row` names: together they have more than {MAX_ROW} \
                 bytes, a `json` value among them is one that `jsonb` refuses, or the job named others when the row was \
                 taken up; set its `dispatch` column to NULL"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_attempt_could_start_is_refused_before_there_is_one() {
        let spec = |text: &str| serde_json::from_str::<JobSpec>(text).unwrap();
        for good in [
            r#"{"command": ["true"], "env": {"A": "b"}}"#,
            r#"{"command": "true"}"#,
            "{}",
        ] {
            assert_eq!(well_formed(&spec(good)), Ok(()), "{good}");
        }
        for (bad, why) in [
            (r#"{"command": []}"#, "empty"),
            (r#"{"command": [""]}"#, "empty"),
            (r#"{"command": " "}"#, "empty"),
            (r#"{"command": ["true"], "env": {"A=B": "c"}}"#, "A=B"),
            (r#"{"command": ["true"], "env": {"": "c"}}"#, "letters, digits"),
            (
                r#"{"command": ["true"], "env": {"BASH_FUNC_a%%": "c"}}"#,
                "BASH_FUNC_a%%",
            ),
            (
                r#"{"command": ["true"], "env": {"FARMHAND_KEY": "c"}}"#,
                "FARMHAND_KEY",
            ),
            (
                r#"{"flow": {"tasks": {"t": {"env": {"BASH_FUNC_a%%": "c"}}}}}"#,
                "BASH_FUNC_a%%",
            ),
            (r#"{"command": ["true"], "secrets": {"../x": "c"}}"#, "../x"),
            (
                r#"{"command": ["true"], "stream": {"file": "/l"}, "secrets": {"A": "b"}}"#,
                "a stream cannot have secrets",
            ),
        ] {
            let said = well_formed(&spec(bad)).unwrap_err();
            assert!(said.contains(why), "{bad}: {said}");
        }
        let long = |n: usize| {
            spec(&format!(
                r#"{{"command": "true", "secrets": {{"{}": "e"}}}}"#,
                "x".repeat(n)
            ))
        };
        assert_eq!(well_formed(&long(100)), Ok(()));
        assert!(well_formed(&long(101)).unwrap_err().contains("100 letters"));
    }
}
