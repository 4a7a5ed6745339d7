//! A job that an importer makes.

use std::collections::BTreeMap;

use farmhand_core::definition::Command;
use farmhand_core::definition::for_importers::{Placeholder, escape, placeholder};

use super::secrets::{MOST, Store, argv_with_variables, has_secret, is_secret, stored, with_variables};
use super::toml_text::{bare, list, quoted, text_or_list};

/// The grace of what is never killed, or later than a job file can say.
pub(crate) const LONG: &str = "365d";

/// A job, ready to be written: its keys in order, each with its value as TOML, and comments between them.
#[derive(Debug)]
pub(crate) struct Draft {
    pub name: String,
    /// Its environment or its command holds what looks like a password.
    pub secret: bool,
    pub(super) lines: Vec<(Option<&'static str>, String)>,
    /// What runs, and the line that says it.
    command: Option<(usize, Command)>,
}

/// As a list where a job file's string may not have what it holds.
fn written(command: &Command) -> String {
    let argv = match command {
        Command::Shell(line) if escape(line) == *line => return quoted(line),
        Command::Shell(line) => ["/bin/sh", "-c", line.as_str()].map(literal).to_vec(),
        Command::Argv(argv) => argv.iter().map(|word| literal(word)).collect(),
    };
    list(&argv)
}

fn words(command: &Command) -> &[String] {
    match command {
        Command::Argv(argv) => argv,
        Command::Shell(line) => std::slice::from_ref(line),
    }
}

impl Draft {
    /// `origin` is the comment below the job's name: where it comes from.
    pub fn new(name: impl Into<String>, origin: &str) -> Self {
        let mut draft = Self {
            name: name.into(),
            secret: false,
            lines: Vec::new(),
            command: None,
        };
        draft.comment(&format!("# {origin}"));
        draft
    }

    pub(crate) fn comment(&mut self, text: &str) {
        self.lines.push((None, text.to_owned()));
    }

    /// A number, a table or the like.
    pub fn raw(&mut self, key: &'static str, value: impl Into<String>) {
        self.lines.push((Some(key), value.into()));
    }

    pub(crate) fn text(&mut self, key: &'static str, value: &str) {
        self.raw(key, quoted(value));
    }

    /// Only what is there.
    pub fn maybe(&mut self, key: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    /// One text alone, or a list of them.
    pub fn texts(&mut self, key: &'static str, values: &[String]) {
        self.raw(key, text_or_list(values));
    }

    /// A command that no shell reads.
    pub fn argv(&mut self, argv: &[String]) {
        self.command(Command::Argv(argv.to_vec()));
    }

    /// A command for a shell.
    pub fn script(&mut self, script: &str) {
        self.command(Command::Shell(script.to_owned()));
    }

    /// What runs.
    pub fn command(&mut self, command: Command) {
        self.secret |= words(&command).iter().any(|word| has_secret(word));
        self.raw("command", written(&command));
        self.command = Some((self.lines.len() - 1, command));
    }

    /// The command's variables. The values of those that look like passwords go to the store, as those of `elsewhere` have, which
    /// are given with their entries; the command, which is there already, reads them.
    pub fn env(
        &mut self,
        env: &BTreeMap<String, String>,
        elsewhere: BTreeMap<String, String>,
        store: &mut Store,
    ) {
        let (mut secrets, mut plain) = (elsewhere, BTreeMap::new());
        let stored = stored(env);
        for (name, value) in env {
            if stored.contains(name) && secrets.len() < MOST {
                let command = self
                    .command
                    .as_ref()
                    .map_or(&[][..], |(_, command)| words(command));
                self.secret |= command.iter().any(|word| word.contains(value));
                secrets.insert(name.clone(), store.entry(&self.name, name, value));
            } else {
                self.secret |= is_secret(name, value);
                plain.insert(name.clone(), value.clone());
            }
        }
        if let Some((line, command)) = &self.command
            && !secrets.is_empty()
        {
            // The same, with variables whose values are in the nodes' store.
            let command = match command {
                Command::Argv(argv) => Command::Argv(argv_with_variables(secrets.keys(), argv)),
                Command::Shell(line) => Command::Shell(with_variables(secrets.keys(), line)),
            };
            self.lines[*line].1 = written(&command);
        }
        self.table("env", &plain);
        self.table("secrets", &secrets);
    }

    fn table(&mut self, key: &'static str, values: &BTreeMap<String, String>) {
        if values.is_empty() {
            return;
        }
        let entries: Vec<String> = (values.iter())
            .map(|(name, value)| format!("{} = {}", bare(name), quoted(value)))
            .collect();
        self.raw(key, format!("{{ {} }}", entries.join(", ")));
    }
}

/// An element of a command list that is not to be taken for a parameter, nor for how one is kept from being taken for it.
fn literal(text: &str) -> String {
    let escaped = escape(text);
    if escaped != text {
        return escaped;
    }
    match placeholder(text) {
        Placeholder::None => text.to_owned(),
        Placeholder::Param(_) => format!("{{{text}}}"),
        // No shell minds a blank at the end.
        Placeholder::Literal(_) => format!("{text} "),
    }
}
