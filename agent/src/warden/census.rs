//! Whose process is this? Asked about children of the warden that it did not fork: orphans of attempts, which
//! become its children because it is a subreaper; and about everything where there is no cgroup.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::process::{self, Stat};
use super::protocol::AttemptId;

/// What is known of a living attempt.
#[derive(Debug)]
pub struct Member<'a> {
    pub id: AttemptId,
    pub main: i32,
    pub cgroup: Option<&'a Path>,
    pub run_dir: &'a Path,
}

#[derive(Debug, Default)]
pub struct Census {
    /// Once known, always known: (pid, start) names one process for ever.
    known: HashMap<(i32, u64), AttemptId>,
    found: HashMap<AttemptId, Vec<Stat>>,
    pub nobodys: Vec<Stat>,
}

impl Census {
    pub fn of(&self, id: AttemptId) -> &[Stat] {
        self.found.get(&id).map_or(&[], Vec::as_slice)
    }

    pub fn clear(&mut self) {
        self.found.clear();
        self.nobodys.clear();
    }

    /// Looks at everything below this process.
    pub fn take(&mut self, members: &[Member<'_>]) {
        let all = process::descendants(std::process::id().cast_signed());
        let mut known = HashMap::new();
        self.found.clear();
        self.nobodys.clear();
        // An orphan's children are the attempt's too, even where they themselves bear no sign of it.
        let mut tops = HashMap::new();
        for (stat, top) in &all {
            if stat.pid == *top {
                tops.insert(*top, self.owner(stat, members));
            }
        }
        for (stat, top) in all {
            if stat.is_zombie() {
                continue;
            }
            let own_sign = if stat.pid == top {
                None
            } else {
                self.sign(&stat, members)
            };
            match own_sign.or(tops.get(&top).copied().flatten()) {
                Some(id) => {
                    known.insert((stat.pid, stat.start), id);
                    self.found.entry(id).or_default().push(stat);
                }
                None => self.nobodys.push(stat),
            }
        }
        self.known = known;
    }

    fn owner(&self, stat: &Stat, members: &[Member<'_>]) -> Option<AttemptId> {
        self.sign(stat, members).or_else(|| {
            // The only attempt there is: nobody else can have made it.
            match members {
                [only] => Some(only.id),
                _ => None,
            }
        })
    }

    fn sign(&self, stat: &Stat, members: &[Member<'_>]) -> Option<AttemptId> {
        let by_descent = members
            .iter()
            .find(|m| [stat.pid, stat.session, stat.pgrp].contains(&m.main));
        if let Some(member) = by_descent {
            return Some(member.id);
        }
        if let Some(id) = self.known.get(&(stat.pid, stat.start)) {
            return members.iter().find(|m| m.id == *id).map(|m| m.id);
        }
        if let Some(path) = cgroup_of(stat.pid) {
            let in_group = |m: &&Member<'_>| {
                m.cgroup.and_then(Path::file_name).is_some_and(|name| {
                    path.split('/').any(|part| part.as_bytes() == name.as_bytes())
                        && m.cgroup
                            .and_then(Path::parent)
                            .and_then(Path::file_name)
                            .is_some_and(|parent| {
                                path.split('/').any(|part| part.as_bytes() == parent.as_bytes())
                            })
                })
            };
            if let Some(member) = members.iter().find(in_group) {
                return Some(member.id);
            }
        }
        members
            .iter()
            .find(|m| has_mark(stat.pid, m.run_dir))
            .map(|m| m.id)
    }
}

fn cgroup_of(pid: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines()
        .find_map(|l| l.strip_prefix("0::"))
        .map(str::to_owned)
}

fn has_mark(pid: i32, run_dir: &Path) -> bool {
    let mut entry = b"FARMHAND_RUN_DIR=".to_vec();
    entry.extend_from_slice(run_dir.as_os_str().as_bytes());
    process::environ_has(pid, &entry)
}
