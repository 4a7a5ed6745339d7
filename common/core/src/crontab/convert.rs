//! From lines to jobs.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use super::line::expression;
use super::name::Names;
use super::write::{self, Draft, Piece};
use super::{File, Import, Imported, Line, Machine, Note, Owner, Report, Task, parse};

/// Turns crontabs into one job file. Every line is in it: as a job, in the environment of the jobs below it, or
/// as a comment that says why not.
pub fn import(files: &[File], machine: &Machine<'_>) -> Import {
    let mut names = Names::default();
    let (mut jobs, mut reports, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        let mut state = State {
            file,
            machine,
            zone: machine.timezone.to_owned(),
            env: BTreeMap::new(),
            spread: None,
            report: Report {
                file: file.name.clone(),
                jobs: 0,
                variables: 0,
                comments: 0,
                invalid: Vec::new(),
                notes: Vec::new(),
            },
        };
        pieces.push(Piece::File(file.name.clone()));
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            let last = file.text.lines().count();
            state.note(
                last,
                "the last line has no line end; cron would ignore or refuse it, it is imported all the same",
            );
        }
        let lines = parse(&file.text, file.owner == Owner::System);
        for ((number, line), source) in (1..).zip(lines).zip(file.text.lines()) {
            match line {
                Line::Blank => pieces.push(Piece::Blank),
                Line::Comment(text) => {
                    state.report.comments += 1;
                    pieces.push(Piece::Comment(text));
                }
                Line::Variable { name, value } => {
                    state.report.variables += 1;
                    state.variable(number, &name, &value);
                    pieces.push(Piece::Comment(format!("# cron: {}", source.trim())));
                }
                Line::Invalid(invalid) => {
                    pieces.push(Piece::Comment(format!(
                        "# NOT IMPORTED, line {number}, column {}: {}; {}",
                        invalid.column, invalid.problem, invalid.mend
                    )));
                    pieces.push(Piece::Comment(format!("#   {}", source.trim())));
                    state.report.invalid.push(invalid);
                }
                Line::Task(task) => {
                    state.report.jobs += 1;
                    let name = names.give(&file.name, &task.command);
                    jobs.push(Imported {
                        name: name.clone(),
                        file: file.name.clone(),
                        line: number,
                        schedule: task.schedule.clone(),
                        timezone: state.zone.clone(),
                        user: state.user(&task),
                        never: task.never,
                    });
                    pieces.push(Piece::Job(Box::new(state.draft(number, name, task, source))));
                }
            }
        }
        reports.push(state.report);
    }
    Import {
        toml: write::job_file(machine.timezone, &pieces, &reports),
        jobs,
        files: reports,
    }
}

/// What the lines so far mean for the next one.
struct State<'a> {
    file: &'a File,
    machine: &'a Machine<'a>,
    zone: String,
    env: BTreeMap<String, String>,
    /// Minutes.
    spread: Option<u32>,
    report: Report,
}

impl State<'_> {
    fn note(&mut self, line: usize, text: impl Into<String>) {
        let text = text.into();
        self.report.notes.push(Note { line, text });
    }

    fn variable(&mut self, line: usize, name: &str, value: &str) {
        match name {
            "MAILTO" if value.is_empty() => {
                self.note(line, "MAILTO is empty: no mail, and none is sent here either");
            }
            "MAILTO" => self.note(
                line,
                format!(
                    "MAILTO={value}: no mail is sent. Output is kept with each run (`farmhand run logs`); alert on failed \
                     runs by the agents' metrics, or send the mail in the command"
                ),
            ),
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
                            "RANDOM_DELAY became `spread`: each job is moved by the same amount every time, not by another one",
                        );
                    }
                    None => self.note(line, format!("RANDOM_DELAY={value} is not a valid number of minutes and is left out")),
                }
                return;
            }
            "LOGNAME" | "USER" => {
                self.note(line, format!("{name} cannot be changed in a crontab: cron ignores the line, and so does this"));
                return;
            }
            "HOME" if !value.starts_with('/') => {
                self.note(line, format!("HOME={value} is not absolute, so jobs do not start there"));
            }
            "SHELL" if value.is_empty() => {
                self.note(line, "SHELL is empty: jobs get /bin/sh");
                self.env.remove(name);
                return;
            }
            "SHELL" if !value.starts_with('/') => {
                self.note(line, format!("SHELL={value} is not absolute: it is looked for in PATH"));
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
        if value.contains('$') {
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
        let name = value.trim_start_matches(':');
        if name == "UTC" || TimeZone::get(name).is_ok() {
            self.zone = name.to_owned();
        } else {
            self.note(
                line,
                format!("CRON_TZ={value} is not a time zone that this machine knows; cron then uses UTC, and so do these jobs"),
            );
            self.zone = "UTC".to_owned();
        }
    }

    fn user(&self, task: &Task) -> Option<String> {
        match &self.file.owner {
            Owner::System => task.user.clone(),
            Owner::User(user) => user.clone(),
        }
    }

    fn draft(&mut self, line: usize, name: String, task: Task, source: &str) -> Draft {
        let user = self.user(&task);
        if let Some(group) = &task.group {
            let text = format!(
                "`{group}` after the user is not carried over: a job runs with all of its user's groups"
            );
            self.note(line, text);
        }
        if task.quiet {
            self.note(
                line,
                "the leading `-` kept cron from logging the job; runs are recorded here",
            );
        }
        if task.never {
            let text = format!(
                "`{}` names a day that never comes: the job has no schedule",
                task.schedule
            );
            self.note(line, text);
        }
        let at_boot = task.schedule.eq_ignore_ascii_case("@reboot");
        if at_boot {
            self.note(
                line,
                format!("{name} runs once per boot on each node; add `where` if only some nodes shall"),
            );
        }
        let mut env = self.env.clone();
        let known = user.as_deref().and_then(self.machine.home);
        let home = env.get("HOME").cloned().or(known);
        match (&home, &user) {
            (Some(_), _) => {}
            (None, Some(user)) => self.note(
                line,
                format!(
                    "{name}: cron starts it in the home of {user}, who is unknown on this machine: set `cwd`"
                ),
            ),
            (None, None) => self.note(
                line,
                format!(
                    "{name}: cron starts it in its user's home directory; set `cwd` if it relies on that"
                ),
            ),
        }
        // An agent sets it so by itself.
        env.retain(|name, value| (name.as_str(), value.as_str()) != ("SHELL", "/bin/sh"));
        let shell = env.get("SHELL").cloned();
        Draft {
            name,
            line,
            source: source.trim().to_owned(),
            schedule: (!task.never).then(|| expression(&task.schedule).to_owned()),
            written: task.schedule,
            each_node: at_boot,
            timezone: Some(self.zone.clone()).filter(|zone| zone != self.machine.timezone),
            spread: self.spread.filter(|_| !at_boot),
            user,
            cwd: home.filter(|home| home.starts_with('/')),
            shell,
            command: task.command,
            stdin: task.stdin,
            env,
        }
    }
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
