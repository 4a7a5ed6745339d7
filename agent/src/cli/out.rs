//! Data on stdout, messages on stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};

use comfy_table::{Cell, ContentArrangement, Table, presets};
use jiff::Timestamp;
use serde::Serialize;

/// Exit code of a process that SIGPIPE ended, which Rust programs ignore.
const BROKEN_PIPE: i32 = 141;

/// Writes to stdout. When its reader has left (`| head`), the process ends quietly.
pub fn raw(bytes: &[u8]) {
    deliver(io::stdout().lock(), bytes);
}

/// As [`raw`], to stderr.
pub fn raw_err(bytes: &[u8]) {
    deliver(io::stderr().lock(), bytes);
}

fn deliver(mut to: impl Write, bytes: &[u8]) {
    if let Err(error) = to.write_all(bytes).and_then(|()| to.flush()) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(BROKEN_PIPE);
        }
        // Nothing can be said on a stream that is broken; the code says it.
        std::process::exit(1);
    }
}

pub fn line(text: &str) {
    raw(format!("{text}\n").as_bytes());
}

/// A message for people, on stderr.
pub fn note(text: &str) {
    raw_err(format!("{text}\n").as_bytes());
}

/// One JSON document, indented when a person looks at it.
pub fn json(value: &impl Serialize) {
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    match text {
        Ok(text) => line(&text),
        Err(error) => note(&format!("error: cannot write this as JSON: {error}")),
    }
}

/// Columns of text that fold to the terminal's width; as wide as they like when there is no terminal.
pub fn table(headers: &[&str], rows: Vec<Vec<String>>) {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(if width().is_some() {
            ContentArrangement::Dynamic
        } else {
            ContentArrangement::Disabled
        })
        .set_header(headers.iter().map(Cell::new));
    if let Some(width) = width() {
        table.set_width(width);
    }
    for row in rows {
        table.add_row(row.into_iter().map(|text| Cell::new(printable(&text))));
    }
    for text in table.to_string().lines() {
        line(text.trim_end());
    }
}

/// Names and values, one to a line.
pub fn pairs(pairs: &[(&str, String)]) {
    let widest = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in pairs {
        line(format!("{name:widest$}  {}", printable(value)).trim_end());
    }
}

/// Width of the terminal that stdout is, or what `COLUMNS` says.
pub fn width() -> Option<u16> {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    if !io::stdout().is_terminal() {
        return columns;
    }
    rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| size.ws_col)
        .filter(|width| *width > 0)
        .or(columns)
        .or(Some(80))
}

/// Whether messages may be coloured.
pub fn color() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !refused && io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Texts of others must not steer the terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// A moment for people, to the second; programs get RFC 3339 from serde.
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// As [`time`], or a dash.
pub fn maybe_time(at: Option<Timestamp>) -> String {
    at.map_or_else(dash, time)
}

/// A value, or a dash.
pub fn maybe(value: Option<impl ToString>) -> String {
    value.map_or_else(dash, |v| v.to_string())
}

fn dash() -> String {
    "-".to_owned()
}
