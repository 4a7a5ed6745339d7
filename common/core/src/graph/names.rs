//! What the names in references mean.

use std::collections::BTreeMap;

use super::members::{Member, Place};

#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// What has to wait for something that comes before the name.
    pub begin: usize,
    /// What has ended when the name has.
    pub end: usize,
}

/// What a name means; for `a|b`, those of the two that somebody provides.
pub(super) fn alternatives<'n>(targets: &BTreeMap<&str, Target>, name: &'n str) -> Vec<(&'n str, Target)> {
    let found = |name: &'n str| targets.get(name).map(|target| (name, *target));
    match found(name) {
        Some(one) => vec![one],
        None => name.split('|').filter_map(found).collect(),
    }
}

/// The tasks that provide a name, and where each says so.
pub(super) type Providers = Vec<(usize, Place)>;

pub(super) fn providers<'m>(members: &[&'m Member]) -> BTreeMap<&'m str, Providers> {
    let mut providers: BTreeMap<&str, Providers> = BTreeMap::new();
    for (task, member) in members.iter().enumerate() {
        for (name, at) in &member.provides {
            let list = providers.entry(name).or_default();
            if list.last().is_none_or(|(last, _)| *last != task) {
                list.push((task, at.clone()));
            }
        }
    }
    let mut aliases: BTreeMap<&str, Providers> = BTreeMap::new();
    for (task, member) in members.iter().enumerate() {
        for name in &member.aliases {
            if !providers.contains_key(name.as_str()) {
                let at = member.provides.first().map(|(_, at)| at.clone());
                let file = member.name.clone();
                let at = at.unwrap_or(Place::new(file, 1));
                aliases.entry(name).or_default().push((task, at));
            }
        }
    }
    providers.extend(aliases);
    providers
}

/// What the task itself is called where its name is that of others, too.
pub(super) fn own_name(task: &str) -> String {
    format!("task {task}")
}
