//! What a definition says to execute, as far as anything could.

use farmhand_core::definition::{Command, JobSpec};

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
    let mut names = spec.env.keys().chain(spec.secrets.keys());
    match names.find(|name| name.is_empty() || name.contains(['=', '/', '\0'])) {
        Some(name) => Err(format!("{name:?} is not a valid name of a variable or secret")),
        None => Ok(()),
    }
}

/// A row's key is the last argument, `$1` of a script.
pub(super) fn with_key(command: Command, key: &str) -> Result<Command, String> {
    if key.len() > MAX_KEY {
        return Err(format!(
            "the row's key has {} bytes, {MAX_KEY} is the most that a command can be given",
            key.len()
        ));
    }
    let mut argv = match command {
        Command::Argv(argv) => argv,
        Command::Shell(script) => ["/bin/sh", "-c", &script, "/bin/sh"].map(str::to_owned).to_vec(),
    };
    argv.push(key.to_owned());
    Ok(Command::Argv(argv))
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
            (r#"{"command": ["true"], "env": {"": "c"}}"#, "not a valid name"),
            (r#"{"command": ["true"], "secrets": {"../x": "c"}}"#, "../x"),
        ] {
            let said = well_formed(&spec(bad)).unwrap_err();
            assert!(said.contains(why), "{bad}: {said}");
        }
    }
}
