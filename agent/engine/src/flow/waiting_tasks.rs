//! Which tasks wait for names of the flow. Read from /proc, because a shell that opens a FIFO does not report that it waits.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use farmhand_os::process::{self, Stat, threads};

/// A task all of whose processes sleep, at least one of them for a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asleep {
    pub files: BTreeSet<OsString>,
    /// Every thread, and how often it was switched: as long as that is the same, it has not run.
    threads: BTreeSet<(PathBuf, String)>,
    /// Pipes that are read, and files that are open for writing there.
    reads: BTreeSet<PathBuf>,
    writes: BTreeSet<PathBuf>,
}

/// What a thread sleeps for.
enum For {
    /// Its children: they are looked at, too.
    Children,
    Name(OsString),
    /// What others write into a pipe.
    Pipe(PathBuf),
}

/// The tasks that are asleep, of those whose process groups have these leaders. A process belongs to a task when it is in its group, has
/// its variables, or is below one that has. What cannot be seen, such as another user's, is awake.
pub(crate) fn asleep(deps: &Path, leaders: &BTreeMap<i32, &str>) -> BTreeMap<i32, Asleep> {
    let all = process::all();
    let one = |(leader, task): (&i32, &&str)| {
        let group: Vec<&Stat> = all.iter().filter(|s| s.pgrp == *leader).collect();
        let mut any = group.iter().flat_map(|s| threads(s.pid));
        if !any.any(|thread| matches!(sleeps_for(&thread, deps), Some(For::Name(_)))) {
            return None;
        }
        let entries = [
            ("FARMHAND_TASK", OsStr::new(task)),
            ("FARMHAND_DEPS", deps.as_os_str()),
        ];
        let entries = entries.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let its =
            |s: &&Stat| s.pgrp == *leader || entries.iter().all(|entry| process::has_variable(s.pid, entry));
        let tops = all.iter().filter(its).map(|s| s.pid).collect();
        let mut found = Asleep::default();
        for (stat, _) in process::below(tops).into_iter().filter(|(s, _)| !s.is_zombie()) {
            found.add(stat.pid, deps)?;
        }
        found.reads.is_subset(&found.writes).then_some((*leader, found))
    };
    leaders.iter().filter_map(one).collect()
}

impl Asleep {
    /// Nothing when it is awake.
    fn add(&mut self, pid: i32, deps: &Path) -> Option<()> {
        for thread in threads(pid) {
            match sleeps_for(&thread, deps)? {
                For::Children => {}
                For::Name(file) => drop(self.files.insert(file)),
                For::Pipe(pipe) => drop(self.reads.insert(pipe)),
            }
            let status = fs::read_to_string(thread.join("status")).ok()?;
            let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
            let switches: String = switches.collect();
            self.threads.insert((thread, switches));
        }
        for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?.flatten() {
            let flags = fs::read_to_string(entry.path()).unwrap_or_default();
            let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
            if flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY) {
                self.writes.extend(link(pid, entry.file_name()));
            }
        }
        Some(())
    }
}

/// Nothing when it runs, or sleeps for something else.
fn sleeps_for(thread: &Path, deps: &Path) -> Option<For> {
    let text = process::read_small(thread.join("syscall")).ok()?;
    let mut words = text.split_ascii_whitespace();
    let call: libc::c_long = words.next()?.parse().ok()?;
    let word = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let arguments: Vec<u64> = words.filter_map(word).collect();
    let argument = |index: usize| arguments.get(index).copied();
    let pid = || {
        thread
            .ancestors()
            .nth(2)?
            .file_name()?
            .to_str()?
            .parse::<i32>()
            .ok()
    };
    match call {
        libc::SYS_wait4 | libc::SYS_waitid => Some(For::Children),
        libc::SYS_openat => name(thread, argument(1)?, deps),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => name(thread, argument(0)?, deps),
        // `flow wait` without a time limit: one descriptor.
        libc::SYS_ppoll if argument(1)? == 1 && argument(2)? == 0 => {
            polled(thread, pid()?, argument(0)?, deps)
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll if argument(1)? == 1 && (argument(2)? as i32) < 0 => {
            polled(thread, pid()?, argument(0)?, deps)
        }
        libc::SYS_read => {
            let at = link(pid()?, argument(0)?.to_string())?;
            at.as_os_str()
                .as_bytes()
                .starts_with(b"pipe:")
                .then_some(For::Pipe(at))
        }
        _ => None,
    }
}

/// What stands at an address is the path of a FIFO of the flow.
fn name(thread: &Path, address: u64, deps: &Path) -> Option<For> {
    let bytes = memory(thread, address, 4096)?;
    let path = bytes.split(|byte| *byte == 0).next()?.to_vec();
    in_deps(
        &fs::read_link(thread.join("cwd"))
            .ok()?
            .join(OsString::from_vec(path)),
        deps,
    )
}

fn polled(thread: &Path, pid: i32, address: u64, deps: &Path) -> Option<For> {
    let fd = memory(thread, address, 4)?.try_into().ok()?;
    in_deps(&link(pid, i32::from_ne_bytes(fd).to_string())?, deps)
}

fn in_deps(path: &Path, deps: &Path) -> Option<For> {
    let place = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    let there = place(path.parent()?)? == place(deps)?;
    there.then_some(For::Name(path.file_name()?.to_owned()))
}

fn link(pid: i32, fd: impl AsRef<Path>) -> Option<PathBuf> {
    fs::read_link(Path::new("/proc").join(pid.to_string()).join("fd").join(fd)).ok()
}

/// At most so many bytes.
fn memory(thread: &Path, address: u64, most: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; most];
    let count = File::open(thread.join("mem"))
        .ok()?
        .read_at(&mut bytes, address)
        .ok()?;
    bytes.truncate(count);
    Some(bytes)
}
