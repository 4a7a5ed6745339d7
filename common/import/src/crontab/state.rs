//! What the lines so far mean for the next one.

use std::collections::{BTreeMap, BTreeSet};

use farmhand_core::definition::for_importers::is_variable;

use super::dialect;
use super::file::{File, Owner, Place};
use super::line::{Line, Task};
use super::zone::zone;
use crate::proposed::{Machine, Report, is_secret, secret_note, uses};

/// The words of commands, by host, and how many lines have each: any of these may take a lock file of that name.
pub(super) type Locks<'a> = BTreeMap<(Option<&'a str>, String), usize>;

/// The host whose files each note was first said of.
pub(super) type FirstHosts = BTreeMap<String, String>;

/// What makes two lines the same job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Same {
    pub schedule: String,
    pub command: String,
    pub stdin: Option<String>,
    pub user: Option<String>,
    pub zone: String,
    pub spread: Option<u32>,
    pub env: BTreeMap<String, String>,
}

/// What the lines so far mean for the next one.
pub(super) struct State<'a> {
    pub(super) file: &'a File,
    pub(super) machine: &'a Machine<'a>,
    pub(super) zone: String,
    /// A line above named a zone.
    zoned: bool,
    pub(super) env: BTreeMap<String, String>,
    /// Minutes.
    pub(super) spread: Option<u32>,
    /// The target that is said of failures.
    pub(super) mail: Option<String>,
    /// Jobs whose home directory is unknown, with their user.
    pub(super) homeless: Vec<(String, Option<String>)>,
    /// Variables that look like passwords and that a command of the file names.
    named: BTreeSet<String>,
    /// Jobs that do not get such a variable, since their commands do not name it.
    secretless: BTreeMap<String, Vec<String>>,
    locks: &'a Locks<'a>,
    said: &'a mut FirstHosts,
    pub(super) report: Report,
}

impl<'a> State<'a> {
    pub(super) fn new(
        file: &'a File,
        machine: &'a Machine<'a>,
        locks: &'a Locks<'a>,
        said: &'a mut FirstHosts,
    ) -> Self {
        Self {
            file,
            machine,
            zone: machine.timezone.to_owned(),
            zoned: false,
            env: BTreeMap::new(),
            spread: None,
            mail: None,
            homeless: Vec::new(),
            named: BTreeSet::new(),
            secretless: BTreeMap::new(),
            locks,
            said,
            report: Report::of(&file.name),
        }
    }

    pub(super) fn note(&mut self, line: usize, text: impl Into<String>) {
        let text = text.into();
        if self.is_news(&text) {
            self.report.note(line, text);
        }
    }

    pub(super) fn variable(&mut self, line: usize, name: &str, value: &str) {
        match name {
            "MAILTO" if value.is_empty() => {
                self.note(line, "MAILTO is empty: no mail, and none is sent here either");
            }
            "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {
                self.note(line, format!("{name} shapes cron's mails, and no mail is sent"));
                return;
            }
            "CRON_TZ" => self.zone(line, value),
            "TZ" => self.note(
                line,
                "TZ is only the command's, as in cron; what moves the schedule is CRON_TZ, here `timezone`",
            ),
            "RANDOM_DELAY" => {
                match value.parse().ok().filter(|minutes| *minutes <= 10_080) {
                    Some(minutes) => {
                        self.spread = Some(minutes).filter(|m| *m > 0);
                        self.note(
                            line,
                            "RANDOM_DELAY became `spread`: each job is moved by the same amount every time, not by another one. Only \
                             cronie heeds it; the cron of Debian and Ubuntu ignores it",
                        );
                    }
                    None => self.note(
                        line,
                        format!("RANDOM_DELAY={value} is not a valid number of minutes and is left out"),
                    ),
                }
                return;
            }
            name if dialect::variable(name).is_some() => {
                self.note(line, dialect::variable(name).unwrap_or_default());
                return;
            }
            "LOGNAME" | "USER" => {
                self.note(
                    line,
                    format!("{name} cannot be changed in a crontab: cron ignores the line, and so does this"),
                );
                return;
            }
            "HOME" if !value.starts_with('/') => {
                self.note(
                    line,
                    format!("HOME={value} is not absolute, so jobs do not start there"),
                );
            }
            "SHELL" if value.is_empty() => {
                self.note(line, "SHELL is empty: jobs get /bin/sh");
                self.env.remove(name);
                return;
            }
            "SHELL" if !value.starts_with('/') => {
                self.note(
                    line,
                    format!("SHELL={value} is not absolute: it is looked for in PATH"),
                );
            }
            _ => {}
        }
        if name.starts_with("FARMHAND_") || !is_variable(name) {
            self.note(
                line,
                format!("`{name}` cannot be the name of a job's variable and is left out"),
            );
            return;
        }
        if is_secret(name, value) {
            self.note(line, secret_note(name, value));
        } else if value.contains('$') {
            self.note(
                line,
                format!("{name}={value}: as in cron, nothing in the value of a variable is expanded"),
            );
        }
        self.env.insert(name.to_owned(), value.to_owned());
    }

    fn zone(&mut self, line: usize, value: &str) {
        if value.is_empty() {
            self.zone = self.machine.timezone.to_owned();
            return;
        }
        if !self.zoned {
            self.note(
                line,
                "CRON_TZ became `timezone`. Only cronie heeds it; the cron of Debian and Ubuntu ignores it, so take the `timezone` out \
                 if these lines are from there",
            );
        }
        self.zoned = true;
        let (zone, text) = zone(value, self.machine.timezone);
        if let Some(text) = text {
            self.note(line, text);
        }
        self.zone = zone;
    }

    /// A variable of the whole file that looks like a password is for the commands that use it, as far as any is known to.
    pub(super) fn find_secrets(&mut self, lines: &[Line]) {
        let variables = lines.iter().filter_map(|line| match line {
            Line::Variable { name, value } if is_secret(name, value) => Some(name),
            _ => None,
        });
        let used = |name: &&String| {
            (lines.iter()).any(|line| matches!(line, Line::Task(task) if uses(&task.command, name)))
        };
        self.named = variables.filter(used).cloned().collect();
    }

    /// Takes those out of a job's environment that its command does not use.
    pub(super) fn take_secrets(&mut self, env: &mut BTreeMap<String, String>, job: &str, command: &str) {
        for name in &self.named {
            if !uses(command, name) && env.remove(name).is_some() {
                self.secretless
                    .entry(name.clone())
                    .or_default()
                    .push(job.to_owned());
            }
        }
    }

    pub(super) fn tell_secretless(&mut self) {
        for (name, jobs) in std::mem::take(&mut self.secretless) {
            let text = format!(
                "{name} is for the jobs whose commands use it; where one of these needs it, add it to its `secrets`: {}",
                jobs.join(", ")
            );
            self.note(0, text);
        }
    }

    pub(super) fn user(&self, task: &Task) -> Option<String> {
        match &self.file.owner {
            Owner::System => task.user.clone(),
            Owner::User(user) => user.clone().or_else(|| task.user.clone()),
        }
    }

    pub(super) fn same(&self, task: &Task) -> Same {
        Same {
            schedule: task.schedule.clone(),
            command: task.command.clone(),
            stdin: task.stdin.clone(),
            user: self.user(task),
            zone: self.zone.clone(),
            spread: self.spread,
            env: self.env.clone(),
        }
    }

    /// Whether no other host's files said it before.
    pub(super) fn is_news(&mut self, text: &str) -> bool {
        let Some(host) = self.file.host() else { return true };
        let first = self.said.entry(text.to_owned());
        first.or_insert_with(|| host.to_owned()) == host
    }

    /// Whether several lines of one machine name the lock's file, and so may take it.
    pub(super) fn shares(&self, lock: &str) -> bool {
        (self.locks.iter()).any(|((_, file), lines)| file == lock && *lines > 1)
    }

    /// Where a job's runs shut each other out.
    pub(super) fn within(&self) -> &'static str {
        match self.file.place {
            Place::Any => "on the whole farm",
            Place::EachNode | Place::Node(_) => "on each node",
        }
    }
}
