//! From lines to jobs.

use std::collections::BTreeMap;

use farmhand_core::definition::NODE_LABEL;

use super::file::{File, Place};
use super::line::{Line, Task, expression};
use super::merge::{Times, hosts, locks};
use super::shell;
use super::state::{FirstHosts, State};
use crate::proposed::{
    Draft, Import, Imported, Machine, Names, Piece, SECRET_COMMAND, Store, has_secret, hide_variable,
    text_or_list,
};

/// How the file begins: what cron does and most jobs do not want.
const DEFAULTS: &[(Option<&str>, &str)] = &[
    (
        None,
        "# As cron does it: a job starts whatever else of it still runs, and nothing is made up for.",
    ),
    (
        None,
        "# \"skip\" and \"latest\", the defaults without these lines, are what most jobs want.",
    ),
    (Some("overlap"), "allow"),
    (Some("catch_up.runs"), "skip"),
];

/// The same where every job is pinned: a node that is away has no run, and makes up for none.
const EACH_NODE: (Option<&str>, &str) = (Some("run_on"), "each-node");

/// Turns crontabs into one job file. Every line is in it: as a job, in the environment of the jobs below it, or
/// as a comment that says why not.
pub fn import(files: &[File], machine: &Machine<'_>) -> Import {
    let (mut names, mut targets) = (Names::default(), Names::default());
    let (mut jobs, mut reports, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    let (mut store, mut mails) = (Store::default(), BTreeMap::new());
    let (locks, hosts) = (locks(files), hosts(files, machine));
    let (mut times, mut said) = (Times::default(), FirstHosts::new());
    for file in files {
        let mut state = State::new(file, machine, &locks, &mut said);
        let mut ids = BTreeMap::new();
        let before = pieces.len();
        pieces.push(Piece::File(file.name.clone()));
        for note in &file.notes {
            state.note(0, note);
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            let last = file.text.lines().count();
            state.note(
                last,
                "the last line has no line end; cron would ignore or refuse it, it is imported all the same",
            );
        }
        let lines = file.lines();
        state.find_secrets(&lines);
        for ((number, line), source) in (1..).zip(lines).zip(file.text.lines()) {
            match line {
                Line::Blank => pieces.push(Piece::Blank),
                Line::Comment(text) => {
                    state.report.comments += 1;
                    pieces.extend(state.is_news(&text).then_some(Piece::Comment(text)));
                }
                Line::Variable { name, value } => {
                    state.report.variables += 1;
                    state.variable(number, &name, &value);
                    let text = format!("# cron: {}", hide_variable(source.trim(), &name, &value));
                    pieces.extend(state.is_news(&text).then_some(Piece::Comment(text)));
                    if name == "MAILTO" {
                        let mail = state.mailto(number, &value);
                        state.mail = mail.map(|addresses| {
                            let name = mails.entry(addresses.clone()).or_insert_with(|| {
                                let name = targets.unique("cron-mail");
                                pieces.push(Piece::Mail(name.clone(), addresses));
                                name
                            });
                            name.clone()
                        });
                    }
                }
                Line::Invalid(invalid) => {
                    pieces.push(Piece::Comment(format!(
                        "# NOT IMPORTED, line {number}, column {}: {}; {}",
                        invalid.column, invalid.problem, invalid.fix
                    )));
                    pieces.push(Piece::Comment(format!("#   {}", source.trim())));
                    state.report.invalid.push(invalid);
                }
                Line::Task(task) => {
                    state.report.jobs += 1;
                    let nodes = match file.host() {
                        Some(host) => hosts.get(&times.next(host, state.same(&task))),
                        None => None,
                    };
                    let nodes = nodes.cloned().unwrap_or_default();
                    if nodes
                        .first()
                        .is_some_and(|first| Some(first.as_str()) != file.host())
                    {
                        continue;
                    }
                    let only = Some(nodes.as_slice()).and_then(|nodes| match nodes {
                        [only] => Some(only.as_str()),
                        _ => None,
                    });
                    let guarded = shell::guarded(&task.command);
                    let program = guarded.as_ref().map_or(&task.command, |guard| &guard.command);
                    let name = match (&task.dialect.name, only) {
                        (Some(name), None) => names.unique(name),
                        (Some(name), Some(only)) => names.unique(&format!("{name}-{only}")),
                        (None, only) => names.give(file.stem(), program, only),
                    };
                    ids.extend(task.dialect.id.clone().map(|id| (id, name.clone())));
                    let waits = task.dialect.waits.iter().filter_map(|id| ids.get(id));
                    let waits: Vec<String> = waits.cloned().collect();
                    jobs.push(Imported {
                        name: name.clone(),
                        file: file.name.clone(),
                        line: number,
                        schedule: task.schedule.clone(),
                        timezone: state.zone.clone(),
                        user: state.user(&task),
                        never: task.never,
                        nodes: nodes.clone(),
                    });
                    let draft = state.draft(number, name, task, source, (&nodes, &waits), &mut store);
                    pieces.push(Piece::Job(Box::new(draft)));
                }
            }
        }
        state.tell_ignored();
        state.tell_userless();
        state.tell_homeless();
        state.tell_secretless();
        reports.push(state.report);
        // Nothing in it that other hosts' files do not have.
        if !pieces[before + 1..]
            .iter()
            .any(|piece| !matches!(piece, Piece::Blank))
            && file.host().is_some()
        {
            pieces.truncate(before);
        }
    }
    let mut defaults = vec![(Some("timezone"), machine.timezone)];
    defaults.extend(DEFAULTS);
    defaults.extend(
        files
            .iter()
            .any(|file| file.place != Place::Any)
            .then_some(EACH_NODE),
    );
    Import::new("crontab", &defaults, pieces, reports, jobs, store)
}

impl State<'_> {
    fn draft(
        &mut self,
        line: usize,
        name: String,
        task: Task,
        source: &str,
        (nodes, waits): (&[String], &[String]),
        store: &mut Store,
    ) -> Draft {
        let user = self.user(&task);
        for note in &task.dialect.notes {
            self.note(line, note);
        }
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
        self.tell_schedule(line, &task.schedule);
        let at_boot = task.schedule.eq_ignore_ascii_case("@reboot");
        let anywhere = self.file.place == Place::Any;
        if at_boot && anywhere {
            self.note(
                line,
                format!("{name} runs once per boot on each node; add `where` if only some nodes shall"),
            );
        }
        let mut env = self.env.clone();
        let known = user.as_deref().and_then(self.machine.home);
        let home = env.get("HOME").cloned().or(known);
        if home.is_none() {
            self.homeless.push((name.clone(), user.clone()));
        }
        let (command, overlap) = self.unwrapped(line, &name, task.command);
        let overlap = overlap.or(task.dialect.overlap);
        if has_secret(&command) {
            self.note(line, format!("{name}: {SECRET_COMMAND}"));
        }
        // An agent sets it so by itself.
        let words = command.clone();
        env.retain(|name, value| (name.as_str(), value.as_str()) != ("SHELL", "/bin/sh"));
        let mut draft = Draft::new(name, &format!("line {line}: {}", source.trim()));
        if task.never {
            draft.comment(&format!("# schedule = \"{}\" never fires", task.schedule));
        } else if waits.is_empty() {
            draft.text("schedule", expression(&task.schedule));
        } else {
            draft.texts("triggered_by", waits);
        }
        if let Some((first, last)) = task.dialect.years {
            draft.text("start", &format!("{first}-01-01"));
            draft.text("end", &format!("{}-01-01", last + 1));
        }
        if task.dialect.makes_up {
            draft.text("catch_up.runs", "latest");
        }
        if at_boot && anywhere {
            draft.text("run_on", "each-node");
        }
        if !nodes.is_empty() {
            draft.raw("where", format!("{{ {NODE_LABEL} = {} }}", text_or_list(nodes)));
        }
        draft.maybe(
            "timezone",
            Some(self.zone.as_str()).filter(|zone| *zone != self.machine.timezone),
        );
        if let Some(minutes) = self.spread.filter(|_| !at_boot) {
            draft.text("spread", &format!("{minutes}m"));
        }
        match env.get("SHELL") {
            None => draft.script(&command),
            Some(shell) => draft.argv(&[shell.clone(), "-c".to_owned(), command]),
        }
        draft.maybe("overlap", overlap);
        draft.maybe("notify", self.mail.as_deref());
        draft.maybe("stdin", task.stdin.as_deref());
        draft.maybe("user", user.as_deref());
        draft.maybe("cwd", home.as_deref().filter(|home| home.starts_with('/')));
        self.take_secrets(&mut env, &draft.name, &words);
        draft.env(&env, BTreeMap::new(), store);
        draft
    }
}
