//! The job file.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Report;
use crate::definition::{Placeholder, placeholder};

/// What the job file is made of, in the order of the crontabs.
#[derive(Debug)]
pub(super) enum Piece {
    File(String),
    Blank,
    Comment(String),
    Job(Box<Draft>),
}

/// A job, ready to be written.
#[derive(Debug)]
pub(super) struct Draft {
    pub name: String,
    pub line: usize,
    pub source: String,
    pub schedule: Option<String>,
    pub written: String,
    pub each_node: bool,
    pub timezone: Option<String>,
    /// Minutes.
    pub spread: Option<u32>,
    pub user: Option<String>,
    pub cwd: Option<String>,
    /// When it is not /bin/sh.
    pub shell: Option<String>,
    pub command: String,
    pub stdin: Option<String>,
    pub env: BTreeMap<String, String>,
}

/// The first words of every file written here.
pub const HEADER: &str = "# Made by `farmhand import crontab`.";

pub(super) fn job_file(timezone: &str, pieces: &[Piece], reports: &[Report]) -> String {
    let mut out = String::new();
    comment(&mut out, &format!("{HEADER} Apply it with `farmhand job apply`."));
    left_behind(&mut out, reports);
    out.push_str("\n[defaults]\n");
    key(&mut out, "timezone", &quoted(timezone));
    out.push_str(
        "# As cron does it: a job starts whatever else of it still runs, and nothing is made up for.\n",
    );
    out.push_str("# \"skip\" and \"latest\", the defaults without these lines, are what most jobs want.\n");
    key(&mut out, "overlap", &quoted("allow"));
    key(&mut out, "missed", &quoted("skip"));
    for piece in pieces {
        match piece {
            Piece::File(name) => comment(&mut out, &format!("\n# ---- {}", name)),
            Piece::Blank if out.ends_with("\n\n") => {}
            Piece::Blank => out.push('\n'),
            Piece::Comment(text) => comment(&mut out, text),
            Piece::Job(draft) => job(&mut out, draft),
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn left_behind(out: &mut String, reports: &[Report]) {
    for report in reports {
        let heading = format!(
            "# {}: {} jobs, {} variables, {} comments, {} lines that are none of these",
            report.file,
            report.jobs,
            report.variables,
            report.comments,
            report.invalid.len()
        );
        comment(out, &heading);
        for bad in &report.invalid {
            let text = format!(
                "#   line {}, column {}: NOT IMPORTED: {}",
                bad.line, bad.column, bad.problem
            );
            comment(out, &text);
        }
        for note in &report.notes {
            comment(out, &format!("#   line {}: {}", note.line, note.text));
        }
    }
}

fn job(out: &mut String, job: &Draft) {
    if !out.ends_with("\n\n") && !out.lines().next_back().is_some_and(|l| l.starts_with('#')) {
        out.push('\n');
    }
    let _ = writeln!(out, "[job.{}]", bare(&job.name));
    comment(out, &format!("# line {}: {}", job.line, job.source));
    match &job.schedule {
        Some(schedule) => key(out, "schedule", &quoted(schedule)),
        None => comment(out, &format!("# schedule = {} never fires", quoted(&job.written))),
    }
    if job.each_node {
        key(out, "run_on", &quoted("each-node"));
    }
    if let Some(zone) = &job.timezone {
        key(out, "timezone", &quoted(zone));
    }
    if let Some(minutes) = job.spread {
        key(out, "spread", &quoted(format!("{minutes}m")));
    }
    match &job.shell {
        None => key(out, "command", &quoted(&job.command)),
        Some(shell) => {
            let list = [&literal(shell), "-c", &literal(&job.command)];
            let list = list.map(quoted).join(", ");
            key(out, "command", &format!("[{list}]"));
        }
    }
    let texts = [("stdin", &job.stdin), ("user", &job.user), ("cwd", &job.cwd)];
    for (name, value) in texts {
        if let Some(value) = value {
            key(out, name, &quoted(value));
        }
    }
    if !job.env.is_empty() {
        let entries: Vec<String> = (job.env.iter())
            .map(|(name, value)| format!("{name} = {}", quoted(value)))
            .collect();
        key(out, "env", &format!("{{ {} }}", entries.join(", ")));
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
    match placeholder(text) {
        Placeholder::None => text.to_owned(),
        Placeholder::Param(_) => format!("{{{text}}}"),
        // No shell minds a blank at the end.
        Placeholder::Literal(_) => format!("{text} "),
    }
}

fn bare(name: &str) -> String {
    if name.contains('.') {
        quoted(name)
    } else {
        name.to_owned()
    }
}

/// A TOML string; as it stands where TOML has a form for that.
fn quoted(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
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
