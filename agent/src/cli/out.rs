//! Data on stdout, messages on stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::Duration;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use farmhand_common::core::document::duration_text;
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
pub fn json(value: &(impl Serialize + ?Sized)) {
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

/// Columns of text. On a terminal too narrow for them the last column folds; where even that is not enough, each
/// row becomes a block of lines. Without a terminal they are as wide as they like.
pub fn table(headers: &[&str], rows: Vec<Vec<String>>) {
    for text in format_table(headers, &rows, width()).lines() {
        line(text.trim_end());
    }
}

/// The least that a folded last column is worth reading at.
const FOLDED: usize = 16;

fn format_table(headers: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|text| printable(text)).collect())
        .collect();
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headers)
        .add_rows(&rows);
    let Some(width) = width else {
        return table.to_string();
    };
    let mut widths: Vec<usize> = table
        .column_max_content_widths()
        .iter()
        .map(|w| usize::from(*w) + 2)
        .collect();
    let last = widths.pop().unwrap_or(0);
    let others: usize = widths.iter().sum();
    let room = usize::from(width);
    if others + last > room && others + FOLDED.min(last) > room {
        return blocks(headers, &rows);
    }
    for column in table.column_iter_mut().take(widths.len()) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    table.to_string()
}

fn blocks(headers: &[&str], rows: &[Vec<String>]) -> String {
    let widest = headers.iter().map(|h| h.len()).max().unwrap_or(0);
    let block = |row: &Vec<String>| {
        let lines: Vec<String> = headers
            .iter()
            .zip(row)
            .map(|(header, text)| format!("{header:widest$}  {text}"))
            .collect();
        lines.join("\n")
    };
    rows.iter().map(block).collect::<Vec<_>>().join("\n\n")
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

/// A span for people: exact while it is short.
pub fn span(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_secs_f64()),
        seconds => duration_text(Duration::from_secs(seconds)),
    }
}

/// A value, or a dash.
pub fn maybe(value: Option<impl ToString>) -> String {
    value.map_or_else(dash, |v| v.to_string())
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(width: Option<u16>) -> String {
        let row = [
            "job-with-a-name",
            "succeeded",
            "a reason of several words that is long",
        ]
        .map(str::to_owned);
        format_table(&["JOB", "STATE", "REASON"], &[row.to_vec()], width)
    }

    #[test]
    fn a_wide_terminal_and_no_terminal_show_one_line_per_row() {
        assert_eq!(sample(None).lines().count(), 2);
        assert_eq!(sample(Some(120)).lines().count(), 2);
    }

    #[test]
    fn a_narrow_terminal_folds_the_last_column_only() {
        let text = sample(Some(50));
        assert!(text.lines().all(|l| l.trim_end().chars().count() <= 50), "{text}");
        assert!(
            text.contains("job-with-a-name") && text.contains("succeeded"),
            "{text}"
        );
        assert!(text.lines().count() > 2, "{text}");
    }

    #[test]
    fn a_terminal_too_narrow_for_columns_shows_blocks() {
        assert_eq!(
            sample(Some(30)),
            "JOB     job-with-a-name\nSTATE   succeeded\nREASON  a reason of several words that is long"
        );
    }

    #[test]
    fn a_text_of_others_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
    }
}
