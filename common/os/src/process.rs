//! Looking at processes, and signalling exactly the one that was looked at.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long an environment is waited for that its process, starting a program, does not have yet.
pub const STARTS_WITHIN: Duration = Duration::from_millis(50);

/// What `/proc/PID/stat` says of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number, which another process may have once it was reaped.
    pub pid: i32,
    /// One letter, as in ps(1): `R`, `S`, `Z`, …
    pub state: char,
    pub ppid: i32,
    pub pgrp: i32,
    pub session: i32,
    /// Its threads. The first one keeps its entry after its end until all others have ended.
    pub threads: u32,
    /// Clock ticks since boot. Together with the pid it names one process for ever.
    pub start: u64,
}

impl Stat {
    /// Whether it has ended and only its entry is left.
    pub fn is_zombie(&self) -> bool {
        self.lacks_first_thread() && self.threads <= 1
    }

    /// The state is that of its first thread, which may end before the others: then they go on, in a process that looks dead.
    fn lacks_first_thread(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// A file that the kernel makes as it is read, with as few calls as that takes: as a rule one to open, read and close it
/// each. Such a file gives less than was asked for at its end, where the next record does not fit, and where more than a page
/// of memory is asked for.
pub fn read_small(path: impl AsRef<Path>) -> io::Result<String> {
    const SIZE: usize = 4096;
    const LONGEST_RECORD: usize = 64;
    let file = fs::File::open(path)?;
    let (mut text, mut part, mut count) = (Vec::new(), [0; SIZE], SIZE);
    while SIZE - count < LONGEST_RECORD {
        count = match rustix::io::read(&file, &mut part) {
            Err(rustix::io::Errno::INTR) => continue,
            read => read?,
        };
        text.extend_from_slice(&part[..count]);
    }
    String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// None for a process that does not exist (any more).
pub fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(pid, &String::from_utf8_lossy(&text))
}

fn parse_stat(pid: i32, text: &str) -> Option<Stat> {
    // The name may hold spaces and parentheses; the last one closes it.
    let rest = text.get(text.rfind(')')? + 1..)?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let ppid = fields.next()?.parse().ok()?;
    let pgrp = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let threads = fields.nth(13)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    Some(Stat {
        pid,
        state,
        ppid,
        pgrp,
        session,
        threads,
        start,
    })
}

/// Whether no instruction of its will run again: each thread is ending, or in a system call that SIGKILL waits for. False if unseen.
pub fn is_ending(pid: i32) -> bool {
    let mut threads = threads(pid).peekable();
    threads.peek().is_some() && threads.all(|thread| is_thread_ending(&thread).unwrap_or_else(is_gone))
}

fn is_thread_ending(of: &Path) -> io::Result<bool> {
    const PF_EXITING: u64 = 4;
    let text = fs::read(of.join("stat"))?;
    let text = String::from_utf8_lossy(&text);
    let (_, rest) = text.rsplit_once(')').unwrap_or_default();
    let flags = rest.split_ascii_whitespace().nth(6).unwrap_or_default();
    let exiting = flags.parse::<u64>().is_ok_and(|f| f & PF_EXITING != 0);
    Ok(exiting || is_killed(&fs::read_to_string(of.join("status"))?))
}

fn is_gone(error: io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

fn is_killed(status: &str) -> bool {
    let mut pending = status
        .lines()
        .filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")))
        .filter_map(|set| u64::from_str_radix(set.trim(), 16).ok());
    pending.any(|set| set & (1 << (libc::SIGKILL - 1)) != 0)
}

/// Children of this process, zombies included; it must have one thread.
pub fn own_children() -> Vec<i32> {
    match read_small("/proc/thread-self/children") {
        Ok(text) => text
            .split_ascii_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect(),
        Err(_) => children(std::process::id().cast_signed()),
    }
}

/// Children of all threads of a process, zombies included.
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for task in tasks.flatten() {
        match fs::read_to_string(task.path().join("children")) {
            Ok(text) => found.extend(
                text.split_ascii_whitespace()
                    .filter_map(|n| n.parse::<i32>().ok()),
            ),
            Err(e) if e.kind() == io::ErrorKind::NotFound && task.path().exists() => {
                // A kernel without CONFIG_PROC_CHILDREN.
                return all()
                    .into_iter()
                    .filter(|s| s.ppid == pid)
                    .map(|s| s.pid)
                    .collect();
            }
            Err(_) => {}
        }
    }
    found
}

/// Every process of the machine that can be seen.
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect()
}

/// These processes and everything below them, each with the one of `tops` that it descends from. Not a
/// snapshot: what forks meanwhile may be missing, so whoever wants all of it looks again until nothing new
/// shows.
pub fn below(tops: Vec<i32>) -> Vec<(Stat, i32)> {
    let mut found = HashMap::new();
    let mut queue: VecDeque<(i32, i32)> = tops.into_iter().map(|c| (c, c)).collect();
    while let Some((pid, top)) = queue.pop_front() {
        if found.contains_key(&pid) {
            continue;
        }
        if let Some(stat) = stat(pid) {
            queue.extend(children(pid).into_iter().map(|child| (child, top)));
            found.insert(pid, (stat, top));
        }
    }
    found.into_values().collect()
}

/// As [`below`], for all children of a process.
pub fn descendants(root: i32) -> Vec<(Stat, i32)> {
    below(children(root))
}

/// The environment that a process was started with, entries ending in a zero byte. Empty for one that may not be looked at;
/// perhaps incomplete for one that is starting a program still when `until` has come.
pub fn environment(pid: i32, until: Instant) -> Vec<u8> {
    let environ = environment_at(Path::new(&format!("/proc/{pid}")), until);
    if environ.is_empty() && stat(pid).is_some_and(|seen| seen.lacks_first_thread()) {
        let mut others = threads(pid).map(|thread| environment_at(&thread, until));
        return others.find(|found| !found.is_empty()).unwrap_or(environ);
    }
    environ
}

/// Of a process or one of its threads, by its directory.
fn environment_at(of: &Path, until: Instant) -> Vec<u8> {
    loop {
        let Ok(environ) = fs::read(of.join("environ")) else {
            return Vec::new();
        };
        if environment_size(of) == Some(environ.len()) || Instant::now() >= until {
            return environ;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// The directories of a process's threads.
pub fn threads(pid: i32) -> impl Iterator<Item = PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    tasks.into_iter().flatten().flatten().map(|task| task.path())
}

/// None in the middle of execve: the memory of the program before is gone, with whatever of it was not read yet, and that of
/// the new one has no environment yet.
fn environment_size(of: &Path) -> Option<usize> {
    let text = fs::read(of.join("stat")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let (_, rest) = text.rsplit_once(')').unwrap_or_default();
    let fields: Vec<usize> = rest
        .split_ascii_whitespace()
        .map(|n| n.parse().unwrap_or(0))
        .collect();
    let at = |number: usize| fields.get(number - 3).copied().filter(|n| *n != 0);
    let (memory, code, env_start, env_end) = (at(23), at(26), at(50), at(51));
    match (memory, code) {
        // A zombie, or a thread of the kernel.
        (None, _) => Some(0),
        // Noted last.
        (_, None) => None,
        _ => env_end?.checked_sub(env_start?),
    }
}

/// Whether a process was started with exactly this entry (`NAME=value`) in its environment.
pub fn has_variable(pid: i32, entry: &[u8]) -> bool {
    let until = Instant::now() + STARTS_WITHIN;
    environment(pid, until)
        .split(|b| *b == 0)
        .any(|found| found == entry)
}

/// Who started a process, also when it is a setuid program.
pub fn real_user(pid: i32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// When a process was started, in CLOCK_BOOTTIME nanoseconds, to a clock tick.
pub fn started_ns(stat: &Stat) -> u64 {
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    u64::try_from(u128::from(stat.start) * 1_000_000_000 / u128::from(ticks)).unwrap_or(u64::MAX)
}

/// Its resident memory; None for a process that does not exist (any more).
pub fn rss_bytes(pid: i32) -> Option<u64> {
    let resident = |of: &Path| -> Option<u64> {
        let text = fs::read_to_string(of.join("statm")).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let mut pages = resident(Path::new(&format!("/proc/{pid}")))?;
    if pages == 0 {
        // Its first thread may have ended, and has none any more.
        let others = threads(pid).filter_map(|thread| resident(&thread));
        pages = others.max().unwrap_or(0);
    }
    Some(pages * rustix::param::page_size() as u64)
}

/// Signals the process that `seen` describes, never a later one with its number.
pub fn signal(seen: &Stat, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(seen.pid) else {
        return Ok(());
    };
    let fd = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        other => other?,
    };
    if stat(seen.pid).is_none_or(|now| now.start != seen.start) {
        return Ok(());
    }
    match pidfd_send_signal(&fd, signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

/// What `ps` and `top` show instead of "exe".
pub fn name_process(name: &std::ffi::CStr) {
    // SAFETY: a valid string of at most 15 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

#[cfg(test)]
mod tests;
