//! The forms in which cron's log may have the command of a job.

use std::collections::BTreeSet;

use farmhand_core::definition::{Command, Filling, argv};

use super::line::percent;
use super::shell;
use crate::proposed::{argv_without_variables, without_variables};

/// What a shell is given, as `farmhand import crontab` wrote it.
pub(crate) fn text(command: &Command) -> String {
    let words = match command {
        Command::Shell(script) => return without_variables(script.trim()).to_owned(),
        Command::Argv(_) => argv(command, &Filling::default()).unwrap_or_default(),
    };
    match argv_without_variables(&words) {
        [_, flag, script] if flag == "-c" => without_variables(script.trim()).to_owned(),
        words => words.join(" "),
    }
}

/// What the import may have made of the line that cron logs so.
pub(crate) fn forms(command: &str) -> BTreeSet<String> {
    let mut forms = vec![command.to_owned(), percent(command).0.trim().to_owned()];
    let front: Vec<String> = (forms.iter())
        .filter_map(|form| shell::foreground(form).map(str::to_owned))
        .collect();
    forms.extend(front);
    let guarded: Vec<String> = (forms.iter())
        .filter_map(|form| shell::guarded(form).map(|guarded| guarded.command))
        .collect();
    forms.extend(guarded);
    forms.iter().map(|form| printed(form)).collect()
}

/// As cron writes what is no printable ASCII character; also of a text that is written so already.
pub(crate) fn printed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' => out.push(char::from(byte)),
            0..=31 => out.extend(['^', char::from(byte + 64)]),
            127 => out.push_str("^?"),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use farmhand_core::definition::load;
    use farmhand_core::document::Source;

    use super::*;
    use crate::crontab::{File, Owner, Place, import};
    use crate::proposed::Machine;

    #[test]
    fn what_reads_passwords_from_the_store_is_no_part_of_the_command() {
        for shell in ["", "SHELL=/bin/bash\n"] {
            let file = File {
                name: "tab".to_owned(),
                text: format!("{shell}A_TOKEN=geheim\nB_SECRET=geheimer\n0 1 * * * backup --all 'x y'\n"),
                owner: Owner::User(None),
                place: Place::Any,
                notes: Vec::new(),
                seconds: false,
            };
            let machine = Machine {
                timezone: "UTC",
                home: &|_| None,
            };
            let made = import(&[file], &machine);
            let source = Source {
                name: "jobs.toml".to_owned(),
                text: made.toml,
            };
            let spec = load(&[source]).unwrap().remove(0).spec;
            assert_eq!(spec.secrets.len(), 2);
            assert_eq!(text(spec.command.as_ref().unwrap()), "backup --all 'x y'");
        }
    }
}
