//! Names for lines that have none.

use std::collections::{BTreeMap, BTreeSet};

/// Words that stand before the program that a line is about.
const PASSED_OVER: &[&str] = &[
    "if", "then", "test", "command", "type", "which", "exec", "nice", "ionice", "sudo", "env", "time",
    "timeout", "flock", "nohup", "chronic", "cronic", "cd", "bash", "sh", "dash", "zsh", "ksh", "perl",
    "php", "ruby", "node", "java", "true", "sleep", "echo", "export", "source", "not", "while", "for", "do",
    "setsid", "su", "runuser",
];

#[derive(Debug, Default)]
pub(crate) struct Names {
    given: BTreeSet<String>,
    /// How often a name was wanted that had been given.
    times: BTreeMap<String, usize>,
}

impl Names {
    /// A name for a line of `file`, not given before: letters, digits, `.`, `_` and `-`. It ends with the host, if there is one.
    pub fn give(&mut self, file: &str, command: &str, host: Option<&str>) -> String {
        let stem = stem(file);
        let program = program(command);
        let mut base = match (stem.is_empty(), program.is_empty()) {
            (true, true) => "cron".to_owned(),
            (true, false) => program,
            (false, true) => stem,
            (false, false) if program.starts_with(&stem) => program,
            (false, false) if stem.ends_with(&program) => stem,
            (false, false) => format!("{stem}-{program}"),
        };
        let host = host.map(|host| format!("-{}", plain(host))).unwrap_or_default();
        base.truncate(90_usize.saturating_sub(host.len()).max(40));
        self.unique(&format!("{}{host}", base.trim_end_matches(['-', '.', '_'])))
    }

    /// Nothing else gets this name.
    pub fn reserve(&mut self, name: String) {
        self.given.insert(name);
    }

    /// This name, or with a number behind it if it was given before.
    pub fn unique(&mut self, name: &str) -> String {
        let mut base = plain(name);
        base.truncate(90);
        if base.is_empty() {
            "job".clone_into(&mut base);
        }
        let mut name = base.clone();
        while !self.given.insert(name.clone()) {
            let times = self.times.entry(base.clone()).or_insert(1);
            *times += 1;
            name = format!("{base}-{times}");
        }
        name
    }
}

/// `/etc/cron.d/sysstat` → sysstat; files whose name says nothing give nothing.
fn stem(file: &str) -> String {
    let last = file.rsplit('/').next().unwrap_or(file);
    let stem = ["crontab", "cron", "txt", "tab"].iter().fold(last, |name, end| {
        name.strip_suffix(end)
            .and_then(|n| n.strip_suffix('.'))
            .filter(|n| !n.is_empty())
            .unwrap_or(name)
    });
    if ["crontab", "cron", "-", "tabs"].contains(&stem) {
        return String::new();
    }
    plain(stem)
}

/// The program that a command line is about, as far as its words tell.
fn program(command: &str) -> String {
    let words = command.split(|c: char| c.is_whitespace() || "|&;()[]{}`\"'<>$!".contains(c));
    for word in words {
        let last = word.rsplit('/').next().unwrap_or(word);
        let name = match last.rsplit_once('.') {
            Some((name, "sh" | "py" | "pl" | "php" | "rb" | "js" | "bash")) => name,
            _ => last,
        };
        let python = name.starts_with("python");
        let odd = !name.starts_with(|c: char| c.is_ascii_alphabetic())
            || word.contains('=')
            || word.starts_with('-');
        if odd || python || PASSED_OVER.contains(&name) || name == "null" {
            continue;
        }
        return plain(name);
    }
    String::new()
}

fn plain(text: &str) -> String {
    let good: String = text
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect();
    good.trim_matches(['-', '.', '_']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_named_after_its_file_and_its_program() {
        let mut names = Names::default();
        for (file, command, name) in [
            (
                "/etc/cron.d/sysstat",
                "command -v debian-sa1 > /dev/null && debian-sa1 1 1",
                "sysstat-debian-sa1",
            ),
            (
                "sysstat",
                "command -v debian-sa1 > /dev/null && debian-sa1 60 2",
                "sysstat-debian-sa1-2",
            ),
            (
                "debian-logcheck.crontab",
                "if [ -x /usr/sbin/logcheck ]; then nice -n10 /usr/sbin/logcheck; fi",
                "debian-logcheck",
            ),
            (
                "crontab",
                "/usr/bin/python /home/ubuntu/vanish-logger.py > /dev/null",
                "vanish-logger",
            ),
            ("-", "$HOME/bin/ping.bash >> /tmp/x", "ping"),
            ("crontab", "PATH=/bin 1>&2", "cron"),
        ] {
            assert_eq!(names.give(file, command, None), name, "{command}");
        }
    }
}
