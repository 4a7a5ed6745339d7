//! Processes of a farm, told by their command lines.

use std::path::Path;

use farmhand_os::process;

/// The subcommands that name a state directory.
pub(crate) const WORDS: [&str; 4] = ["agent", "helper", "reaper", "warden"];

/// Whether a process is `farmhand WORD` with its state in or below `dir`.
pub(super) fn is(pid: i32, word: &str, dir: &Path) -> bool {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = bytes.split(|b| *b == 0).map(String::from_utf8_lossy).collect();
    let ours = words.get(1).is_some_and(|first| first == word);
    ours && words
        .iter()
        .skip(2)
        .any(|argument| Path::new(argument.as_ref()).starts_with(dir))
}

/// The first such process.
pub(super) fn find(word: &str, dir: &Path) -> Option<i32> {
    let mut pids = process::all().into_iter().map(|stat| stat.pid);
    pids.find(|pid| is(*pid, word, dir))
}
