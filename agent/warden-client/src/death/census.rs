//! Whose process is this? Asked about children of the warden that it did not fork: orphans of attempts, which
//! become its children because it is a subreaper; and about everything where there is no cgroup.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::cgroup;
use crate::paths::Paths;
use crate::wire::AttemptId;
use farmhand_os::process::{self, Stat};

const MARK: &[u8] = b"FARMHAND_RUN_DIR=";

/// What is known of a living attempt.
#[derive(Debug)]
pub struct Member<'a> {
    pub id: AttemptId,
    pub main: i32,
    /// Where its processes are; none on a machine without a writable cgroup v2.
    pub cgroup: Option<&'a Path>,
    /// Its run directory, by which processes are recognised that left their group.
    pub run_dir: &'a Path,
}

/// Which living processes belong to which attempt.
#[derive(Debug, Default)]
pub struct Census {
    /// Once known, always known: (pid, start) names one process for ever.
    known: HashMap<(i32, u64), AttemptId>,
    found: HashMap<AttemptId, Vec<Stat>>,
    /// Of attempts that have ended: they slipped through while their tree was looked at.
    pub left_behind: Vec<Stat>,
}

#[derive(Debug)]
struct Signs<'a> {
    living: HashSet<AttemptId>,
    by_main: HashMap<i32, AttemptId>,
    by_cgroup: HashMap<String, AttemptId>,
    by_run_dir: HashMap<&'a Path, &'a Member<'a>>,
    /// Asked for only where a mark is not of its user's.
    by_user: OnceCell<HashMap<u32, Vec<AttemptId>>>,
    /// Until when a mark is waited for that is not there yet.
    until: Instant,
}

impl Member<'_> {
    /// The user that it runs as: the run directory is given to that user by root, in a directory of root's.
    fn user(&self) -> Option<u32> {
        let given = std::fs::symlink_metadata(self.run_dir).ok();
        given
            .map(|dir| dir.uid())
            .or_else(|| process::real_user(self.main))
    }
}

impl Census {
    /// The living processes of an attempt, as last counted.
    pub fn of(&self, id: AttemptId) -> &[Stat] {
        self.found.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Forgets what was counted, but not whose a process is.
    pub fn clear(&mut self) {
        self.found.clear();
        self.left_behind.clear();
    }

    /// Looks at `tops`, children of this process, and everything below them. `runs`: where the run
    /// directories of this warden's attempts are.
    pub fn take(&mut self, tops: Vec<i32>, members: &[Member<'_>], runs: &Path) {
        self.clear();
        let signs = Signs::new(members);
        let all = process::below(tops);
        // The only attempt there is: nobody else can have made an orphan without any sign.
        let only = match members {
            [only] => Some(only.id),
            _ => None,
        };
        // An orphan's children are its attempt's, too, whatever signs they bear themselves.
        let mut owners = HashMap::new();
        for (stat, top) in &all {
            if stat.pid == *top {
                owners.insert(*top, self.owner(stat, &signs).or(only));
            }
        }
        let mut known = HashMap::new();
        for (stat, top) in all.into_iter().filter(|(stat, _)| !stat.is_zombie()) {
            let of_top = owners.get(&top).copied().flatten();
            match of_top.or_else(|| self.owner(&stat, &signs)) {
                Some(id) => {
                    known.insert((stat.pid, stat.start), id);
                    self.found.entry(id).or_default().push(stat);
                }
                None if members.is_empty() || signs.of_ended(stat.pid, runs) => self.left_behind.push(stat),
                None => {}
            }
        }
        self.known = known;
    }

    fn owner(&self, stat: &Stat, signs: &Signs<'_>) -> Option<AttemptId> {
        let numbers = [stat.pid, stat.session, stat.pgrp];
        if let Some(id) = numbers.iter().find_map(|n| signs.by_main.get(n)) {
            return Some(*id);
        }
        if let Some(id) = self.known.get(&(stat.pid, stat.start)) {
            return signs.living.contains(id).then_some(*id);
        }
        let by_cgroup = || {
            let path = cgroup_of(stat.pid)?;
            names(&path).find_map(|name| signs.by_cgroup.get(name)).copied()
        };
        by_cgroup().or_else(|| signs.by_mark(stat.pid))
    }
}

impl<'a> Signs<'a> {
    fn new(members: &'a [Member<'a>]) -> Self {
        let mut signs = Signs {
            living: HashSet::new(),
            by_main: HashMap::new(),
            by_cgroup: HashMap::new(),
            by_run_dir: HashMap::new(),
            by_user: OnceCell::new(),
            until: Instant::now() + process::STARTS_WITHIN,
        };
        for member in members {
            signs.living.insert(member.id);
            signs.by_main.insert(member.main, member.id);
            signs.by_run_dir.insert(member.run_dir, member);
            let name = member.cgroup.and_then(Path::to_str).and_then(last_two);
            signs
                .by_cgroup
                .extend(name.map(|name| (name.to_owned(), member.id)));
        }
        signs
    }

    /// A job gives its processes a directory within its own, as a flow does to its tasks.
    fn named(&self, mark: &Path) -> Option<&'a Member<'a>> {
        mark.ancestors().find_map(|dir| self.by_run_dir.get(dir)).copied()
    }

    /// Any process can carry any mark. It is believed of the user that the attempt runs as; and of a user that root's job
    /// became, when no other attempt runs as that user. Else it is of the only attempt of its own user.
    fn by_mark(&self, pid: i32) -> Option<AttemptId> {
        let named = self.named(&mark_of(pid, self.until)?)?;
        let (user, of_named) = (process::real_user(pid)?, named.user());
        if of_named == Some(user) {
            return Some(named.id);
        }
        match self.by_user().get(&user).map(Vec::as_slice) {
            None => (of_named == Some(0)).then_some(named.id),
            Some([own]) => Some(*own),
            Some(_) => None,
        }
    }

    fn by_user(&self) -> &HashMap<u32, Vec<AttemptId>> {
        self.by_user.get_or_init(|| {
            let mut found: HashMap<u32, Vec<AttemptId>> = HashMap::new();
            for member in self.by_run_dir.values() {
                if let Some(user) = member.user() {
                    found.entry(user).or_default().push(member.id);
                }
            }
            found
        })
    }

    /// Whether it carries the mark of an attempt that is over.
    fn of_ended(&self, pid: i32, runs: &Path) -> bool {
        mark_of(pid, self.until).is_some_and(|mark| mark.starts_with(runs) && self.named(&mark).is_none())
    }
}

/// What this cgroup and those that it is in are called.
fn names(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').map(|(at, _)| &path[..at]);
    above.chain([path]).filter_map(last_two)
}

/// `farmhand-HASH-KIND/RUN.ATTEMPT`: the mount point before it may be anything.
fn last_two(path: &str) -> Option<&str> {
    let last = path.rfind('/')?;
    let before = path[..last].rfind('/').map_or(0, |at| at + 1);
    Some(&path[before..])
}

fn cgroup_of(pid: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines()
        .find_map(|l| l.strip_prefix("0::"))
        .map(str::to_owned)
}

fn mark_of(pid: i32, until: Instant) -> Option<PathBuf> {
    process::environment(pid, until)
        .split(|b| *b == 0)
        .find_map(|entry| entry.strip_prefix(MARK))
        .map(|mark| OsString::from_vec(mark.to_vec()).into())
}

/// Every process of the machine that was given a run directory below `runs`, whoever its parent is by now.
pub fn marked(runs: &Path) -> Vec<Stat> {
    let own = std::process::id().cast_signed();
    let until = Instant::now() + process::STARTS_WITHIN;
    let mut found = process::all();
    found.retain(|stat| {
        let mark = || mark_of(stat.pid, until);
        stat.pid != own && !stat.is_zombie() && mark().is_some_and(|m| m.starts_with(runs))
    });
    found
}

/// Of which of these attempts something lives, whoever its parent is by now: by its cgroup, which everybody may read, or by its
/// run directory in the environment, which its user and root may.
pub fn alive(state_dir: &Path, attempts: &[AttemptId]) -> HashSet<AttemptId> {
    let paths = Paths::new(state_dir);
    let parent = cgroup::parent_name(&paths);
    let signs: Vec<_> = (attempts.iter())
        .map(|id| (*id, format!("{parent}/{id}"), paths.run_dir(*id)))
        .collect();
    let mut found = HashSet::new();
    if attempts.is_empty() {
        return found;
    }
    let until = Instant::now() + process::STARTS_WITHIN;
    for stat in process::all().iter().filter(|stat| !stat.is_zombie()) {
        let path = cgroup_of(stat.pid).unwrap_or_default();
        let mark = mark_of(stat.pid, until).unwrap_or_default();
        let of = signs
            .iter()
            .filter(|(_, cgroup, dir)| names(&path).any(|name| name == cgroup) || mark.starts_with(dir));
        found.extend(of.map(|(id, ..)| *id));
    }
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_cgroup_is_recognised_wherever_it_is_mounted() {
        assert_eq!(
            super::last_two("/sys/fs/cgroup/x/farmhand-1-main/7.1"),
            Some("farmhand-1-main/7.1")
        );
        assert_eq!(
            super::last_two("/farmhand-1-main/7.1"),
            Some("farmhand-1-main/7.1")
        );
        assert_eq!(super::last_two("7.1"), None);
        let within = |path| super::names(path).any(|name| name == "farmhand-1-main/7.1");
        assert!(within("/x.slice/farmhand-1-main/7.1"));
        assert!(within("/x.slice/farmhand-1-main/7.1/deeper"));
        assert!(!within("/x.slice/farmhand-1-main/7.10"));
    }
}
