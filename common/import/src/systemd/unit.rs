//! Unit files: sections, keys, continued lines; systemd.syntax(7).

use crate::proposed::Report;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// From 1, where it begins.
    pub line: usize,
    pub section: String,
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Unit {
    pub entries: Vec<Entry>,
    /// Lines that are neither a section nor an assignment.
    pub odd: Vec<(usize, String)>,
}

impl Unit {
    pub(crate) fn parse(text: &str) -> Self {
        let mut unit = Self::default();
        let mut section = String::new();
        let mut lines = (1..).zip(text.trim_start_matches('\u{feff}').lines());
        while let Some((number, line)) = lines.next() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut section);
                continue;
            }
            let mut whole = line.to_owned();
            while whole.ends_with('\\') {
                whole.pop();
                whole.push(' ');
                // Comments between continued lines are none of the value.
                let next = lines
                    .by_ref()
                    .map(|(_, line)| line.trim())
                    .find(|line| !line.starts_with(['#', ';']));
                match next {
                    Some(next) => whole.push_str(next),
                    None => break,
                }
            }
            match whole.split_once('=') {
                Some((key, value)) => unit.entries.push(Entry {
                    line: number,
                    section: section.clone(),
                    key: key.trim().to_owned(),
                    value: value.trim().to_owned(),
                }),
                None => unit.odd.push((number, whole)),
            }
        }
        unit
    }

    /// All times of a timer under a key. An empty one, of any key of times, takes back those of all keys.
    pub fn times<'a>(&'a self, key: &str) -> Vec<&'a Entry> {
        const TIMES: [&str; 6] = [
            "OnCalendar",
            "OnActiveSec",
            "OnBootSec",
            "OnStartupSec",
            "OnUnitActiveSec",
            "OnUnitInactiveSec",
        ];
        let taken_back =
            |e: &Entry| e.section == "Timer" && e.value.is_empty() && TIMES.contains(&e.key.as_str());
        let from = self.entries.iter().rposition(taken_back).map_or(0, |at| at + 1);
        let of_key = |e: &&Entry| e.section == "Timer" && e.key == key;
        self.entries[from..].iter().filter(of_key).collect()
    }

    /// All values of a key. An empty one takes back those before it.
    pub fn all<'a>(&'a self, section: &str, key: &str) -> Vec<&'a Entry> {
        let mut found: Vec<&Entry> = Vec::new();
        for entry in &self.entries {
            if entry.section == section && entry.key == key {
                if entry.value.is_empty() {
                    found.clear();
                } else {
                    found.push(entry);
                }
            }
        }
        found
    }

    /// The last value of a key.
    pub fn last<'a>(&'a self, section: &str, key: &str) -> Option<&'a Entry> {
        self.all(section, key).pop()
    }

    pub(crate) fn is_on(&self, section: &str, key: &str) -> bool {
        let on =
            |value: &str| ["1", "yes", "y", "true", "t", "on"].contains(&value.to_ascii_lowercase().as_str());
        self.last(section, key).is_some_and(|entry| on(&entry.value))
    }
}

/// Notes every key of a section that is not among these, and those of sections that order units.
pub(super) fn left_out(unit: &Unit, section: &str, read: &[&str], report: &mut Report) {
    const QUIET: &[&str] = &["Description", "Documentation"];
    for entry in &unit.entries {
        let mine = entry.section == section && !read.contains(&entry.key.as_str());
        let general = entry.section == "Unit" && !QUIET.contains(&entry.key.as_str());
        if (mine || general) && !entry.value.is_empty() && !entry.key.starts_with("X-") {
            report.note(
                entry.line,
                format!("{}={} is not carried over", entry.key, entry.value),
            );
        }
    }
}
