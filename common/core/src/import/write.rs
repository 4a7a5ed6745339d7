//! The job file.

use std::collections::BTreeMap;
use std::fmt::Write;

use xxhash_rust::xxh3::xxh3_64;

use super::{Import, Imported, Report, has_secret, is_secret};
use crate::definition::{Placeholder, escape, escape_variables, placeholder};
use crate::text::count;

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

/// A job, ready to be written: its keys in order, each with its value as TOML, and comments between them.
#[derive(Debug)]
pub(crate) struct Draft {
    pub name: String,
    /// Its environment or its command holds what looks like a password.
    pub secret: bool,
    lines: Vec<(Option<&'static str>, String)>,
}

impl Draft {
    /// `origin` is the comment below the job's name: where it comes from.
    pub fn new(name: impl Into<String>, origin: &str) -> Self {
        let mut draft = Self {
            name: name.into(),
            secret: false,
            lines: Vec::new(),
        };
        draft.comment(&format!("# {origin}"));
        draft
    }

    pub fn comment(&mut self, text: &str) {
        self.lines.push((None, text.to_owned()));
    }

    /// A number, a table or the like.
    pub fn raw(&mut self, key: &'static str, value: impl Into<String>) {
        self.lines.push((Some(key), value.into()));
    }

    pub fn text(&mut self, key: &'static str, value: &str) {
        self.raw(key, quoted(value));
    }

    /// Only what is there.
    pub fn maybe(&mut self, key: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    /// One text alone, or a list of them.
    pub fn texts(&mut self, key: &'static str, values: &[String]) {
        self.raw(key, text_or_list(values));
    }

    /// A command that no shell reads.
    pub fn argv(&mut self, argv: &[String]) {
        self.secret |= argv.iter().any(|word| has_secret(word));
        let argv: Vec<String> = argv.iter().map(|word| literal(word)).collect();
        self.raw("command", list(&argv));
    }

    /// A command for a shell; as a list where a job file's string may not have what it holds.
    pub fn script(&mut self, script: &str) {
        self.secret |= has_secret(script);
        match escape(script) == script {
            true => self.text("command", script),
            false => self.argv(&["/bin/sh", "-c", script].map(str::to_owned)),
        }
    }

    pub fn table(&mut self, key: &'static str, values: &BTreeMap<String, String>) {
        if values.is_empty() {
            return;
        }
        self.secret |= values.iter().any(|(name, value)| is_secret(name, value));
        let entries: Vec<String> = (values.iter())
            .map(|(name, value)| format!("{} = {}", bare(name), quoted(value)))
            .collect();
        self.raw(key, format!("{{ {} }}", entries.join(", ")));
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
        pieces: &[Piece],
        files: Vec<Report>,
        jobs: Vec<Imported>,
        secret: bool,
    ) -> Self {
        let mut out = String::new();
        left_behind(&mut out, &files);
        out.push_str(DEFAULTS);
        for (name, value) in defaults {
            match name {
                Some(name) => key(&mut out, name, &quoted(value)),
                None => comment(&mut out, value),
            }
        }
        for piece in pieces {
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
        Self {
            toml: signed(
                &format!("{OWN}{format}`. Apply it with `farmhand job apply`."),
                &out,
            ),
            jobs,
            files,
            secret,
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

/// An element of a command list that is not to be taken for a parameter, nor for how one is kept from being taken for it.
fn literal(text: &str) -> String {
    let escaped = escape(text);
    if escaped != text {
        return escaped;
    }
    match placeholder(text) {
        Placeholder::None => text.to_owned(),
        Placeholder::Param(_) => format!("{{{text}}}"),
        // No shell minds a blank at the end.
        Placeholder::Literal(_) => format!("{text} "),
    }
}

pub(crate) fn text_or_list(values: &[String]) -> String {
    match values {
        [one] => quoted(one),
        more => list(more),
    }
}

fn list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(quoted).collect();
    format!("[{}]", values.join(", "))
}

fn bare(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(plain) {
        name.to_owned()
    } else {
        quoted(name)
    }
}
/// A TOML string; as it stands where TOML has a form for that.
pub(super) fn quoted(text: impl AsRef<str>) -> String {
    let text = &escape_variables(text.as_ref());
    let plain = !text.contains(|c: char| c.is_control() && c != '\t');
    if plain && text.contains(['"', '\\']) && !text.contains('\'') {
        return format!("'{text}'");
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
