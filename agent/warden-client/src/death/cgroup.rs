//! A cgroup (v2) per attempt: it cannot be left by forking, and `cgroup.kill` ends all of it at once.
//!
//! ```text
//! BASE/farmhand-HASH-KIND/RUN.ATTEMPT
//! ```
//! BASE is the cgroup the reaper was started in, or its parent when that is named `agent` (systemd's
//! `DelegateSubgroup=agent`): only a cgroup without processes may give controllers to its children.

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use farmhand_core::definition::Limits;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, unlinkat};

use crate::paths::{Paths, named};
use crate::wire::AttemptId;
use farmhand_os::files::{if_missing, if_there};
use farmhand_os::path_hash::path_hash;
use farmhand_os::process::read_small;

struct Base {
    path: PathBuf,
    /// Made for us alone, so its controllers are ours to switch on.
    delegated: bool,
}

/// Where this process could make cgroups; `None`: no cgroup v2 mounted.
fn base() -> Option<Base> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|l| l.strip_prefix("0::"))?;
    let mount = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ');
        let (root, point) = (fields.nth(3)?, fields.next()?);
        // Below the mount's root our own path may not be visible at all.
        let below = own.strip_prefix(root.trim_end_matches('/'))?;
        right
            .starts_with("cgroup2 ")
            .then(|| PathBuf::from(format!("{point}{below}")))
    })?;
    let delegated = mount.file_name().is_some_and(|n| n == "agent");
    Some(Base {
        path: if delegated {
            mount.parent()?.to_path_buf()
        } else {
            mount
        },
        delegated,
    })
}

/// What the directory for a warden's attempts is called.
pub(crate) fn parent_name(paths: &Paths) -> String {
    let hash = path_hash(paths.state_dir());
    format!("farmhand-{hash:016x}-main")
}

/// Makes the directory for a warden's attempts. `Err` says why there is none: the attempts are then
/// followed by descent.
pub fn make_parent(paths: &Paths) -> io::Result<PathBuf> {
    let base = base().ok_or_else(|| io::Error::other("no cgroup v2 is mounted"))?;
    let parent = base.path.join(parent_name(paths));
    if_missing(fs::create_dir(&parent)).map_err(|e| named(e, &parent))?;
    let outcome = usable(&parent);
    if outcome.is_err() {
        let _ = fs::remove_dir(&parent);
    }
    outcome?;
    // Without controllers limits are watched instead of enforced; nothing else hangs on them.
    for controller in ["+memory", "+pids"] {
        if base.delegated {
            let _ = fs::write(base.path.join("cgroup.subtree_control"), controller);
        }
        let _ = fs::write(parent.join("cgroup.subtree_control"), controller);
    }
    Ok(parent)
}

fn usable(parent: &Path) -> io::Result<()> {
    let kill = parent.join("cgroup.kill");
    OpenOptions::new()
        .write(true)
        .open(&kill)
        .map_err(|e| named(e, &kill))?;
    let probe = parent.join("probe");
    if_missing(fs::create_dir(&probe)).map_err(|e| named(e, &probe))?;
    let entered = farmhand_os::fork::in_child(|| fs::write(probe.join("cgroup.procs"), "0").is_ok());
    // The probing child is reaped, but the kernel may take a moment to let go of it.
    let _ = remove_soon(&probe);
    match entered? {
        true => Ok(()),
        false => Err(io::Error::other(format!("{} cannot be entered", probe.display()))),
    }
}

/// Removes a cgroup and those a job made below it. Fails while anything is in it.
pub fn remove(path: &Path) -> io::Result<()> {
    // Most have none below them, and to list one is most of the work.
    if if_there(fs::remove_dir(path)).is_err() {
        remove_below(path)?;
        if_there(fs::remove_dir(path))?;
    }
    Ok(())
}

/// However deep a job nested them: one is open at a time.
fn remove_below(path: &Path) -> io::Result<()> {
    let open = |dir: BorrowedFd<'_>, name: &CStr| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(dir, name, flags, Mode::empty())
    };
    let mut at: OwnedFd = File::open(path)?.into();
    let mut names: Vec<CString> = Vec::new();
    loop {
        let inner = Dir::read_from(&at)?.flatten().find(|entry| {
            entry.file_type() == FileType::Directory && !matches!(entry.file_name().to_bytes(), b"." | b"..")
        });
        if let Some(inner) = inner {
            at = open(at.as_fd(), inner.file_name())?;
            names.push(inner.file_name().to_owned());
        } else if let Some(name) = names.pop() {
            at = open(at.as_fd(), c"..")?;
            unlinkat(&at, &name, AtFlags::REMOVEDIR)?;
        } else {
            return Ok(());
        }
    }
}

/// As [`remove`], waiting a little: the kernel lets go of a process some time after its death.
pub fn remove_soon(path: &Path) -> io::Result<()> {
    for _ in 0..100 {
        if remove(path).is_ok() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    remove(path)
}

/// SIGKILL for everything in a cgroup and below, atomically with respect to fork.
pub fn kill(path: &Path) -> io::Result<()> {
    if_there(fs::write(path.join("cgroup.kill"), "1")).map(drop)
}

/// Whether any live process is in a cgroup or below it. One that cannot be read counts as populated; one that is gone does not.
pub fn populated(path: &Path) -> bool {
    match read_small(path.join("cgroup.events")) {
        Ok(text) => text.lines().any(|l| l == "populated 1"),
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    }
}

/// Live processes in a cgroup and below it.
pub fn processes(path: &Path) -> Vec<i32> {
    let mut found: Vec<i32> = Vec::new();
    let mut groups = vec![path.to_path_buf()];
    while let Some(group) = groups.pop() {
        let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        found.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
        let entries = fs::read_dir(&group).into_iter().flatten().flatten();
        let inner = entries.filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()));
        groups.extend(inner.map(|entry| entry.path()));
    }
    // 0 stands for a process outside this PID namespace.
    found.retain(|pid| *pid > 0);
    found
}

/// How a new process comes into a cgroup: born there, or, where the kernel cannot do that, by moving itself. A move
/// waits until every processor has taken notice, some 10 ms when there was none for a while, and whoever makes or
/// removes a cgroup meanwhile waits with it.
#[derive(Debug)]
pub struct Entry {
    /// The cgroup's directory, into which the process is cloned.
    pub dir: File,
}

impl Entry {
    /// Moves the calling process in. Asks for no memory.
    pub fn enter(&self) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let procs = rustix::fs::openat(&self.dir, c"cgroup.procs", flags, Mode::empty())?;
        rustix::io::write(procs, b"0")?;
        Ok(())
    }
}

/// Where a warden makes one for each of its attempts.
#[derive(Debug)]
pub struct Parent {
    path: PathBuf,
    /// The kernel counts memory below it.
    memory: bool,
}

impl Parent {
    /// The cgroup at this path, and whether it can limit the memory of groups below it.
    pub fn new(path: PathBuf) -> Parent {
        let controllers = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
        Parent {
            memory: controllers.split_ascii_whitespace().any(|name| name == "memory"),
            path,
        }
    }

    /// Where it is in the file system.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The cgroup of one attempt.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    memory: bool,
    /// The kernel enforces the limit; else the warden watches.
    pub memory_enforced: bool,
    /// The same for the number of processes.
    pub processes_enforced: bool,
}

impl Group {
    /// Makes the cgroup of an attempt, or takes over the one that an earlier warden left, and sets its limits.
    pub fn create(parent: &Parent, id: AttemptId, limits: &Limits) -> io::Result<Group> {
        let path = parent.path.join(id.to_string());
        match fs::create_dir(&path) {
            // Left by a warden before this one. It may still be busy with what has just died in it; nothing lives there.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && !populated(&path) => {
                if remove(&path).is_ok() {
                    fs::create_dir(&path).map_err(|e| named(e, &path))?;
                } else {
                    for limit in ["memory.max", "memory.swap.max", "pids.max"] {
                        let _ = fs::write(path.join(limit), "max");
                    }
                }
            }
            made => made.map_err(|e| named(e, &path))?,
        }
        let set = |file: &str, value: u64| fs::write(path.join(file), value.to_string()).is_ok();
        let memory_enforced = limits.memory.is_some_and(|bytes| {
            // All of the tree or nothing: a half-killed pipeline may report success.
            let _ = set("memory.oom.group", 1);
            let _ = set("memory.swap.max", 0);
            set("memory.max", bytes)
        });
        let processes_enforced = limits
            .processes
            .is_some_and(|count| set("pids.max", u64::from(count)));
        Ok(Group {
            path,
            memory: parent.memory || memory_enforced,
            memory_enforced,
            processes_enforced,
        })
    }

    /// Where it is in the file system.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The way in.
    pub fn entry(&self) -> io::Result<Entry> {
        let dir = File::open(&self.path).map_err(|e| named(e, &self.path))?;
        Ok(Entry { dir })
    }

    /// CPU time of everything that ever ran in it: user and system microseconds.
    pub fn cpu_us(&self) -> Option<(u64, u64)> {
        let text = read_small(self.path.join("cpu.stat")).ok()?;
        let field = |name| {
            text.lines()
                .find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok())
        };
        Some((field("user_usec")?, field("system_usec")?))
    }

    /// The most memory that all its processes ever had together; None where the kernel does not count it.
    pub fn memory_peak(&self) -> Option<u64> {
        let peak = self.memory.then(|| read_small(self.path.join("memory.peak")))?;
        peak.ok()?.trim().parse().ok().filter(|bytes| *bytes > 0)
    }

    /// Whether the kernel ended it for its memory limit, and not because the machine or a group above had no more.
    pub fn out_of_memory(&self) -> bool {
        self.memory_enforced
            && read_small(self.path.join("memory.events")).is_ok_and(|text| {
                let counted = |name| {
                    let mut counts = text.lines().filter_map(|line| line.strip_prefix(name));
                    counts.any(|count| count != "0")
                };
                counted("oom ") && counted("oom_kill ")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_killed_for_the_memory_of_the_machine_was_within_its_own_limit() {
        let dir = tempfile::tempdir().unwrap();
        let out_of_memory = |memory_enforced, oom, oom_kill| {
            let events = format!("low 0\nhigh 0\nmax 9\noom {oom}\noom_kill {oom_kill}\noom_group_kill 0\n");
            fs::write(dir.path().join("memory.events"), events).unwrap();
            let group = Group {
                path: dir.path().to_owned(),
                memory: true,
                memory_enforced,
                processes_enforced: false,
            };
            group.out_of_memory()
        };
        assert!(out_of_memory(true, 3, 2));
        assert!(!out_of_memory(true, 0, 1), "the machine had no more");
        assert!(!out_of_memory(true, 3, 0), "the kernel killed nothing");
        assert!(!out_of_memory(false, 0, 1), "there is no limit");
        assert!(
            !out_of_memory(false, 1, 1),
            "a limit that the job gave to a part of itself"
        );
    }
}
