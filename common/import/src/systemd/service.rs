//! What a service does, as keys of a job.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_core::definition::Command;
use farmhand_core::definition::for_importers::{is_user_name, is_variable};
use farmhand_core::document::{duration_text, parse_duration, parse_size};

use super::exec::{self, Exec};
use super::file::File;
use super::span::span;
use super::specifiers::Specifiers;
use super::unit::{Entry, Unit, left_out};
use crate::proposed::{
    Draft, LONG, Machine, Report, SECRET_COMMAND, Store, has_secret, is_secret, secret_note,
};

/// Keys that are read here, and those that say nothing about the job.
const READ: &[&str] = &[
    "Type",
    "ExecStart",
    "ExecStartPre",
    "ExecStartPost",
    "Environment",
    "EnvironmentFile",
    "User",
    "WorkingDirectory",
    "UMask",
    "Nice",
    "TimeoutStartSec",
    "TimeoutSec",
    "TimeoutStopSec",
    "RuntimeMaxSec",
    "MemoryMax",
    "MemoryLimit",
    "TasksMax",
    "SyslogIdentifier",
];

/// The shortest duration that a job file can say.
const SHORTEST: Duration = Duration::from_millis(1);

/// The keys of a job that follow from a service.
pub(super) struct Body {
    description: Option<String>,
    command: Command,
    pub user: Option<String>,
    cwd: Option<String>,
    umask: Option<String>,
    nice: Option<i32>,
    timeout: Option<String>,
    grace: Option<String>,
    limits: Vec<String>,
    env: BTreeMap<String, String>,
}

/// A service that is read, and what is said about it.
struct Reading<'a> {
    unit: &'a Unit,
    specifiers: Specifiers,
    report: &'a mut Report,
}

impl Body {
    /// None for a service that no job can stand for; the report says why.
    pub fn read(file: &File, user: &str, machine: &Machine<'_>, report: &mut Report) -> Option<Self> {
        let unit = Unit::parse(&file.text);
        left_out(&unit, "Service", READ, report);
        let mut reading = Reading {
            unit: &unit,
            specifiers: Specifiers::of(&file.unit, file.of_user()),
            report,
        };
        let env = reading.env();
        let command = reading.command(file, &env)?;
        let kind = reading.last("Type").unwrap_or_default();
        if file.of_user() {
            let text =
                format!("it is a unit of a user, and the job runs as {user:?}: --user names another one");
            reading.report.note(0, text);
        }
        if kind != "oneshot" {
            reading.note(
                "ExecStartPost",
                "it runs after the command has ended, and not beside it",
            );
        }
        if !["", "simple", "exec", "oneshot"].contains(&kind.as_str()) {
            reading.note(
                "Type",
                "a job ends when its command and all that it started have ended",
            );
        }
        let user = match reading.last("User") {
            Some(user) => user,
            None if unit.is_on("Service", "DynamicUser") => {
                reading.note("DynamicUser", "set `user` to an account of the nodes");
                user.to_owned()
            }
            None => user.to_owned(),
        };
        if !user.is_empty() && !is_user_name(&user) {
            let line = unit.last("Service", "User").map_or(1, |entry| entry.line);
            let problem = format!("User={user}: it is not a valid user name");
            let help = "write a name from the nodes' user database";
            reading.report.refuse(line, &file.unit, problem, help);
            return None;
        }
        // A oneshot unit is starting for as long as it runs.
        let (limits, without) = match kind.as_str() {
            "oneshot" => (["TimeoutStartSec", "TimeoutSec"].as_slice(), "RuntimeMaxSec"),
            _ => (["RuntimeMaxSec"].as_slice(), "TimeoutStartSec"),
        };
        if unit.last("Service", without).is_some() {
            reading.note(without, "it does not limit how long this type of service runs");
        }
        Some(Self {
            description: (unit.last("Unit", "Description"))
                .map(|entry| reading.specifiers.expand(&entry.value).0),
            command,
            cwd: reading.cwd(&user, machine, file.of_user()),
            user: Some(user).filter(|user| !user.is_empty()),
            umask: reading
                .last("UMask")
                .filter(|mask| !["0022", "022", "22"].contains(&mask.as_str())),
            nice: reading.nice(),
            timeout: (reading.time(limits))
                .filter(|(_, time)| *time < Duration::MAX)
                .map(|(_, time)| duration_text(time)),
            grace: reading.grace(),
            limits: reading.limits(),
            env,
        })
    }

    pub(crate) fn write(&self, draft: &mut Draft, store: &mut Store) {
        draft.maybe("description", self.description.as_deref());
        draft.command(self.command.clone());
        draft.maybe("user", self.user.as_deref());
        draft.maybe("cwd", self.cwd.as_deref());
        draft.maybe("umask", self.umask.as_deref());
        if let Some(nice) = self.nice {
            draft.raw("nice", nice.to_string());
        }
        draft.maybe("timeout", self.timeout.as_deref());
        draft.maybe("grace", self.grace.as_deref());
        if !self.limits.is_empty() {
            draft.raw("limits", format!("{{ {} }}", self.limits.join(", ")));
        }
        draft.env(&self.env, BTreeMap::new(), store);
    }
}

impl<'a> Reading<'a> {
    /// What the key's last line says, with why that is not all of it.
    fn note(&mut self, key: &str, text: &str) {
        let Some(entry) = self.unit.last("Service", key) else {
            return;
        };
        let text = format!("{key}={}: {text}", entry.value);
        // One key may be read as several: TimeoutSec= is of the start and of the end.
        if !self.report.notes.iter().any(|note| note.text == text) {
            self.report.note(entry.line, text);
        }
    }

    fn expand(&mut self, entry: &Entry, text: &str) -> String {
        let (text, unknown) = self.specifiers.expand(text);
        for specifier in unknown {
            self.report.note(
                entry.line,
                format!(
                    "{}: {specifier} is known only to systemd: write what it stands for",
                    entry.key
                ),
            );
        }
        text
    }

    fn last(&mut self, key: &str) -> Option<String> {
        let entry = self.unit.last("Service", key)?;
        Some(self.expand(entry, &entry.value))
    }

    /// Of keys that say the same, the last one counts. Zero is no limit, and so is `infinity`.
    fn time(&mut self, keys: &[&str]) -> Option<(&'a Entry, Duration)> {
        let unit = self.unit;
        let entries = keys.iter().filter_map(|key| unit.last("Service", key));
        let entry = entries.max_by_key(|entry| entry.line)?;
        let span = match span(&entry.value) {
            _ if entry.value == "infinity" => Duration::MAX,
            Some(span) if span.is_zero() => Duration::MAX,
            Some(span) if parse_duration(&duration_text(span)).is_ok() => span.max(SHORTEST),
            Some(_) => {
                self.note(&entry.key, "more than a hundred years is no limit here");
                Duration::MAX
            }
            None => {
                self.note(&entry.key, "it is not a duration and is left out");
                return None;
            }
        };
        Some((entry, span))
    }

    fn grace(&mut self) -> Option<String> {
        let (entry, grace) = self.time(&["TimeoutStopSec", "TimeoutSec"])?;
        if grace < Duration::MAX {
            return Some(duration_text(grace));
        }
        if entry.value == "infinity" || span(&entry.value).is_some_and(|span| span.is_zero()) {
            let text = format!("systemd never kills what does not end; here that is done after {LONG}");
            self.note(&entry.key, &text);
        }
        Some(LONG.to_owned())
    }

    /// All commands that the service runs, one after the other.
    fn command(&mut self, file: &File, env: &BTreeMap<String, String>) -> Option<Command> {
        let unit = self.unit;
        if unit.all("Service", "ExecStart").is_empty() {
            self.report.refuse(
                1,
                &file.unit,
                "the service has no ExecStart=",
                "write the job by hand",
            );
            return None;
        }
        let mut all: Vec<Exec> = Vec::new();
        for key in ["ExecStartPre", "ExecStart", "ExecStartPost"] {
            for entry in unit.all("Service", key) {
                let mut line: Vec<Exec> = Vec::new();
                match exec::commands(&entry.value) {
                    Ok(execs) => {
                        // As systemd: what a specifier stands for is not split or unescaped once more.
                        let words = execs.into_iter().map(|mut exec| {
                            exec.words = exec.words.iter().map(|word| self.expand(entry, word)).collect();
                            exec
                        });
                        line.extend(words);
                    }
                    Err(problem) => {
                        let problem = format!("{key}={}: {problem}", entry.value);
                        self.report
                            .refuse(entry.line, &entry.value, problem, "fix the quotes");
                        return None;
                    }
                }
                if has_secret(&entry.value) {
                    self.report.note(entry.line, SECRET_COMMAND);
                }
                for name in line.iter().filter_map(|exec| exec.name.as_ref()) {
                    let text = format!(
                        "{key}={}: `{name}` is what systemd tells the program as its name; a job tells it its path. If it goes by that name, \
                         let the command say it in another way",
                        entry.value
                    );
                    self.report.note(entry.line, text);
                }
                if line.iter().any(|exec| exec.privileged) {
                    let text = format!(
                        "{key}={}: all of a job runs as one user, with that user's rights",
                        entry.value
                    );
                    self.report.note(entry.line, text);
                }
                all.extend(line);
            }
        }
        if let [exec] = &all[..]
            && let (Some(argv), false) = (exec.argv(), exec.may_fail)
        {
            return Some(Command::Argv(argv));
        }
        for name in all.iter().flat_map(Exec::split) {
            if env
                .get(name)
                .is_some_and(|value| value.contains(['*', '?', '[', '"', '\'', '\\']))
            {
                let text = "a shell splits it at blanks alone and looks for files that fit its patterns; systemd reads its quotes";
                self.report.note(0, format!("${name}: {text}"));
            }
        }
        let lines: Vec<String> = all.iter().map(Exec::shell).collect();
        Some(Command::Shell(lines.join(" && ")))
    }

    /// systemd starts services of the system in `/`, those of a user in the user's home.
    fn cwd(&mut self, user: &str, machine: &Machine<'_>, of_user: bool) -> Option<String> {
        let without = if of_user { "~" } else { "/" };
        let cwd = self
            .last("WorkingDirectory")
            .unwrap_or_else(|| without.to_owned());
        if cwd.starts_with('-') {
            self.note(
                "WorkingDirectory",
                "where it is missing, systemd starts the service in `/`, and the job fails",
            );
        }
        match cwd.trim_start_matches('-') {
            "~" => {
                let home = (machine.home)(user);
                if home.is_none() {
                    self.note("WorkingDirectory", "set `cwd` to that user's home directory");
                }
                home
            }
            cwd => Some(cwd.to_owned()).filter(|cwd| cwd.starts_with('/')),
        }
    }

    fn nice(&mut self) -> Option<i32> {
        let nice = self.last("Nice")?;
        let number = nice.parse().ok().filter(|nice| (-20..=19).contains(nice));
        if number.is_none() {
            self.note(
                "Nice",
                "it is not carried over; `nice` takes a number from -20 to 19",
            );
        }
        number
    }

    fn limits(&mut self) -> Vec<String> {
        let mut limits = Vec::new();
        for key in ["MemoryMax", "MemoryLimit"] {
            let Some(value) = self.last(key).filter(|value| value != "infinity") else {
                continue;
            };
            let digits = value.trim_end_matches(['K', 'M', 'G', 'T']);
            let unit = match &value[digits.len()..] {
                "" => "B".to_owned(),
                letter => format!("{letter}iB"),
            };
            let size = format!("{digits}{unit}");
            match parse_size(&size) {
                Ok(1_048_576..) => limits.push(format!("memory = \"{size}\"")),
                _ => self.note(key, "it is not carried over; `limits` takes a size from 1 MiB"),
            }
            break;
        }
        match self.last("TasksMax").map(|n| n.parse::<u32>()) {
            Some(Ok(n @ 1..=4_194_304)) => limits.push(format!("processes = {n}")),
            Some(_) => self.note("TasksMax", "it is not carried over; `limits` takes a number"),
            None => {}
        }
        limits
    }

    fn env(&mut self) -> BTreeMap<String, String> {
        let unit = self.unit;
        let mut env = BTreeMap::new();
        for entry in unit.all("Service", "Environment") {
            match exec::assignments(&entry.value) {
                Ok(list) => {
                    for (name, value) in list {
                        let value = self.expand(entry, &value);
                        if is_variable(&name) && !name.starts_with("FARMHAND_") {
                            if is_secret(&name, &value) {
                                self.report.note(entry.line, secret_note(&name, &value));
                            }
                            env.insert(name, value);
                        } else {
                            let text =
                                format!("`{name}` cannot be the name of a job's variable and is left out");
                            self.report.note(entry.line, text);
                        }
                    }
                }
                Err(problem) => self.report.note(
                    entry.line,
                    format!("Environment={}: {problem}; the line is left out", entry.value),
                ),
            }
        }
        for entry in unit.all("Service", "EnvironmentFile") {
            self.report.note(
                entry.line,
                format!(
                    "EnvironmentFile={}: a job reads no such file: put its variables into `env`, and what is secret into `secrets`",
                    entry.value
                ),
            );
        }
        env
    }
}
