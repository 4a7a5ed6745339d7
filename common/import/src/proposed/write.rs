//! The job file.

use std::collections::BTreeMap;
use std::fmt::Write;

use farmhand_core::text::count;
use xxhash_rust::xxh3::xxh3_64;

use super::draft::Draft;
use super::report::{Import, Imported, Report};
use super::secrets::{Store, hide, tells_secret};
use super::toml_text::{bare, list, quoted};

/// What the job file is made of, in the order of what was read.
#[derive(Debug)]
pub(crate) enum Piece {
    File(String),
    Blank,
    Comment(String),
    /// Mail for people: the target's name, and the addresses.
    Mail(String, Vec<String>),
    /// A calendar of the next job: its name, and the only days on which that runs.
    Calendar(String, Vec<String>),
    Job(Box<Draft>),
}

impl Piece {
    /// Comments say what a file said, without these values.
    fn hide(&mut self, secrets: &BTreeMap<String, String>) {
        match self {
            Self::Comment(text) => hide(text, secrets),
            Self::Job(draft) => {
                let comments = draft.lines.iter_mut().filter(|(key, _)| key.is_none());
                comments.for_each(|(_, text)| hide(text, secrets));
            }
            Self::File(_) | Self::Blank | Self::Mail(..) | Self::Calendar(..) => {}
        }
    }
}

impl Report {
    /// Its sentences, too, but for a value that is a plain word: they say of no secret what it is, and would lose their own words.
    fn hide(&mut self, secrets: &BTreeMap<String, String>) {
        let word = |value: &str| value.bytes().all(|b| b.is_ascii_lowercase());
        let (mut odd, notes) = (secrets.clone(), self.notes.iter_mut().map(|note| &mut note.text));
        odd.retain(|_, value| !word(value));
        notes.for_each(|text| hide(text, &odd));
        for bad in &mut self.invalid {
            hide(&mut bad.problem, &odd);
            hide(&mut bad.text, secrets);
        }
    }
}

/// How every file that was made here begins.
const OWN: &str = "# Made by `farmhand import ";
/// The second line, and its end.
const CHECKSUM: &str = "# Checksum of what follows: ";

const DEFAULTS: &str = "\n[defaults]\n";
const OBSERVE: &str = "# When each job would run is recorded, and nothing is executed: the other scheduler goes on. Without this line they run.\n\
    observe  = true\n";

/// The text under its first line and its checksum.
fn signed(first: &str, body: &str) -> String {
    format!("{first}\n{CHECKSUM}{}\n{body}", checksum(body))
}

/// Whether this text was made here and nothing of it was changed since.
pub fn is_unedited(text: &str) -> bool {
    let Some((_, rest)) = text.strip_prefix(OWN).and_then(|rest| rest.split_once('\n')) else {
        return false;
    };
    let Some((sum, body)) = rest.strip_prefix(CHECKSUM).and_then(|rest| rest.split_once('\n')) else {
        return false;
    };
    sum == checksum(body)
}

fn checksum(text: &str) -> String {
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

impl Import {
    /// Writes the job file. `format` as in `farmhand import crontab`; `defaults` are comments and keys of `[defaults]`.
    pub(crate) fn new(
        format: &str,
        defaults: &[(Option<&str>, &str)],
        mut pieces: Vec<Piece>,
        mut files: Vec<Report>,
        jobs: Vec<Imported>,
        store: Store,
    ) -> Self {
        let (mut out, secrets) = (String::new(), store.into_values());
        let in_jobs = (pieces.iter()).any(|piece| matches!(piece, Piece::Job(draft) if draft.secret));
        pieces.iter_mut().for_each(|piece| piece.hide(&secrets));
        files.iter_mut().for_each(|report| report.hide(&secrets));
        left_behind(&mut out, &files);
        out.push_str(DEFAULTS);
        for (name, value) in defaults {
            match name {
                Some(name) => key(&mut out, name, &quoted(value)),
                None => comment(&mut out, value),
            }
        }
        for piece in &pieces {
            match piece {
                Piece::File(name) => comment(&mut out, &format!("\n# ---- {}", name)),
                Piece::Blank if out.ends_with("\n\n") => {}
                Piece::Blank => out.push('\n'),
                Piece::Comment(text) => comment(&mut out, text),
                Piece::Mail(name, addresses) => {
                    let _ = writeln!(out, "[notify.{}]", bare(name));
                    key(&mut out, "email", &list(addresses));
                    key(&mut out, "on", "[\"failure\", \"recovery\"]");
                }
                Piece::Calendar(name, days) => {
                    let _ = writeln!(out, "\n[calendar.{}]", bare(name));
                    key(&mut out, "include", &list(days));
                }
                Piece::Job(draft) => job(&mut out, draft),
            }
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        let mut comments = out.lines().filter(|line| line.starts_with('#'));
        let secret = in_jobs || comments.any(tells_secret);
        Self {
            toml: signed(
                &format!("{OWN}{format}`. Apply it with `farmhand job apply`."),
                &out,
            ),
            jobs,
            files,
            secret,
            secrets,
        }
    }

    /// The same file, of jobs that observe.
    pub fn observe(&mut self) {
        let mut parts = self.toml.splitn(3, '\n');
        if let (Some(first), Some(_), Some(body)) = (parts.next(), parts.next(), parts.next()) {
            self.toml = signed(
                first,
                &body.replacen(DEFAULTS, &format!("{DEFAULTS}{OBSERVE}"), 1),
            );
        }
    }
}

fn left_behind(out: &mut String, reports: &[Report]) {
    for report in reports {
        let left_out = report.invalid.len();
        let counts = [
            (true, count(report.jobs, "job")),
            (report.variables > 0, count(report.variables, "variable")),
            (report.comments > 0, count(report.comments, "comment")),
            (left_out > 0, format!("{left_out} not imported")),
        ];
        let counts: Vec<String> = (counts.into_iter())
            .filter_map(|(told, text)| told.then_some(text))
            .collect();
        comment(out, &format!("# {}: {}", report.file, counts.join(", ")));
        for bad in &report.invalid {
            let text = format!(
                "#   line {}, column {}: NOT IMPORTED: {}",
                bad.line, bad.column, bad.problem
            );
            comment(out, &text);
        }
        for note in &report.notes {
            match note.line {
                0 => comment(out, &format!("#   {}", note.text)),
                line => comment(out, &format!("#   line {line}: {}", note.text)),
            }
        }
    }
}

fn job(out: &mut String, job: &Draft) {
    if !out.ends_with("\n\n") && !out.lines().next_back().is_some_and(|l| l.starts_with('#')) {
        out.push('\n');
    }
    let _ = writeln!(out, "[job.{}]", bare(&job.name));
    for (name, value) in &job.lines {
        match name {
            Some(name) => key(out, name, value),
            None => comment(out, value),
        }
    }
    out.push('\n');
}

fn key(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name:8} = {value}");
}

/// A comment's text may hold nothing that ends it or that TOML forbids there.
fn comment(out: &mut String, text: &str) {
    let clean = |c: char| {
        if c.is_control() && c != '\t' {
            '\u{fffd}'
        } else {
            c
        }
    };
    let (lead, text) = match text.strip_prefix('\n') {
        Some(rest) => ("\n", rest),
        None => ("", text),
    };
    out.push_str(lead);
    out.extend(text.chars().map(clean));
    out.push('\n');
}
