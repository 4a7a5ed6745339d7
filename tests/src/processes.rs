//! The processes of this machine, as `/proc` shows them.

use std::fs;
use std::path::PathBuf;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    /// R, S, D, T, Z …
    pub state: char,
    /// Its arguments, joined by blanks; its name in brackets when it has none.
    pub command: String,
    /// The environment it was started with, `NAME=value` each; empty where reading it is not allowed.
    pub environment: Vec<String>,
}

/// Every process, zombies included.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(one).collect()
}

/// One process, unless it is gone.
pub fn one(pid: i32) -> Option<Process> {
    let dir = PathBuf::from(format!("/proc/{pid}"));
    let stat = fs::read_to_string(dir.join("stat")).ok()?;
    // The name stands in parentheses and may hold both blanks and parentheses.
    let (head, tail) = stat.rsplit_once(") ")?;
    let mut fields = tail.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let words = |file: &str| -> Vec<String> {
        let bytes = fs::read(dir.join(file)).unwrap_or_default();
        let words = bytes.split(|b| *b == 0).filter(|w| !w.is_empty());
        words.map(|w| String::from_utf8_lossy(w).into_owned()).collect()
    };
    let mut command = words("cmdline").join(" ");
    if command.is_empty() {
        command = format!("[{}]", head.split_once('(').map_or(head, |(_, name)| name));
    }
    Some(Process {
        pid,
        parent,
        state,
        command,
        environment: words("environ"),
    })
}

/// `root` and everything below it, by parents.
pub fn tree(root: i32) -> Vec<Process> {
    let all = all();
    let mut found: Vec<Process> = all.iter().filter(|p| p.pid == root).cloned().collect();
    let mut next = 0;
    while next < found.len() {
        let parent = found[next].pid;
        found.extend(all.iter().filter(|p| p.parent == parent).cloned());
        next += 1;
    }
    found
}

/// Those whose command line contains `text`; not this process.
pub fn with_command(text: &str) -> Vec<Process> {
    let own = std::process::id().cast_signed();
    all()
        .into_iter()
        .filter(|p| p.pid != own && p.command.contains(text))
        .collect()
}
