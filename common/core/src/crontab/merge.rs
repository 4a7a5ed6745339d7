//! Crontabs of many hosts: which lines they share.

use std::collections::BTreeMap;

use super::convert::State;
use super::shell;
use super::{File, Line, Machine, Owner, Place, Task, parse};

/// The words of commands, by host, and how many lines have each: any of these may take a lock file of that name.
pub(super) type Locks<'a> = BTreeMap<(Option<&'a str>, String), usize>;

/// What was said already, and of which host's files.
pub(super) type Told = BTreeMap<String, String>;

impl File {
    pub(super) fn host(&self) -> Option<&str> {
        match &self.place {
            Place::Node(host) => Some(host),
            Place::Any | Place::EachNode => None,
        }
    }

    /// What jobs are named after: not after the host, which comes last.
    pub(super) fn stem(&self) -> &str {
        let last = self.name.rsplit('/').next();
        if last.is_some() && last == self.host() {
            ""
        } else {
            &self.name
        }
    }
}

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

/// Counts the lines of each host, so that a line that it has twice is two jobs.
#[derive(Debug, Default)]
pub(super) struct Times<'a>(BTreeMap<(&'a str, Same), usize>);

impl<'a> Times<'a> {
    pub(super) fn next(&mut self, host: &'a str, same: Same) -> (Same, usize) {
        let times = self.0.entry((host, same.clone())).or_default();
        *times += 1;
        (same, *times)
    }
}

pub(super) fn locks(files: &[File]) -> Locks<'_> {
    let mut locks = Locks::new();
    for file in files {
        for line in parse(&file.text, file.owner == Owner::System) {
            let Line::Task(task) = line else { continue };
            for word in shell::words(&task.command) {
                *locks.entry((file.host(), word.to_owned())).or_default() += 1;
            }
        }
    }
    locks
}

/// The hosts that have each line.
pub(super) type Hosts = BTreeMap<(Same, usize), Vec<String>>;

pub(super) fn hosts(files: &[File], machine: &Machine<'_>) -> Hosts {
    let (mut hosts, mut times) = (Hosts::new(), Times::default());
    for file in files {
        let Place::Node(host) = &file.place else { continue };
        let (locks, mut told) = (BTreeMap::new(), Told::new());
        let mut state = State::new(file, machine, &locks, &mut told);
        for line in parse(&file.text, file.owner == Owner::System) {
            match line {
                Line::Variable { name, value } => state.variable(0, &name, &value),
                Line::Task(task) => {
                    let line = times.next(host, state.same(&task));
                    hosts.entry(line).or_default().push(host.clone());
                }
                Line::Blank | Line::Comment(_) | Line::Invalid(_) => {}
            }
        }
    }
    hosts
}

impl State<'_> {
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
        let first = self.told.entry(text.to_owned());
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
