//! Crontabs of many hosts: which lines they share.

use std::collections::BTreeMap;

use super::file::{File, Place};
use super::line::Line;
use super::shell;
use super::state::{FirstHosts, Locks, Same, State};
use crate::proposed::Machine;

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
        for line in file.lines() {
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
        let (locks, mut said) = (BTreeMap::new(), FirstHosts::new());
        let mut state = State::new(file, machine, &locks, &mut said);
        for line in file.lines() {
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
