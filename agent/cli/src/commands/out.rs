//! Data on stdout, messages on stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
pub use farmhand_core::sanitize::printable;
pub use farmhand_core::text::span;
pub use farmhand_os::terminal::width;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
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

/// A number of things: `1 job`, `2 jobs`.
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

/// A message for people, on stderr. Much of it quotes what others wrote.
pub fn note(text: &str) {
    raw_err(format!("{}\n", printable(text)).as_bytes());
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

/// Columns of text. On a terminal too narrow for them the widest fold, between words if they can; where not even
/// words fit, each row becomes a block of lines. Nothing is cut off. Without a terminal they are as wide as they like.
pub fn table(headers: &[&str], rows: Vec<Vec<String>>) {
    for text in format_table(headers, &rows, width()).lines() {
        line(text.trim_end());
    }
}

/// A word longer than this may be broken.
const WORD: usize = 24;
/// Blanks beside each column.
const PADDING: usize = 2;

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
    let natural: Vec<usize> = table
        .column_max_content_widths()
        .iter()
        .map(|w| usize::from(*w))
        .collect();
    let Some(folded) = fold(&natural, &longest_words(headers, &rows), usize::from(width)) else {
        return blocks(headers, &rows, width);
    };
    for (column, width) in table.column_iter_mut().zip(folded) {
        let width = u16::try_from(width + PADDING).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    table.to_string()
}

/// Widths that fit `room`: the widest columns give way first, none below its longest word.
fn fold(natural: &[usize], least: &[usize], room: usize) -> Option<Vec<usize>> {
    let mut widths = natural.to_vec();
    let mut over = (widths.iter().sum::<usize>() + PADDING * widths.len()).saturating_sub(room);
    while over > 0 {
        let widest = (0..widths.len())
            .filter(|i| widths[*i] > least[*i])
            .max_by_key(|i| widths[*i])?;
        widths[widest] -= 1;
        over -= 1;
    }
    Some(widths)
}

fn longest_words(headers: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let longest = |text: &str| text.split_whitespace().map(|w| w.chars().count()).max();
    let mut least: Vec<usize> = headers.iter().map(|h| longest(h).unwrap_or(0)).collect();
    for row in rows {
        for (least, text) in least.iter_mut().zip(row) {
            *least = (*least).max(longest(text).unwrap_or(0).min(WORD));
        }
    }
    least
}

fn blocks(headers: &[&str], rows: &[Vec<String>], width: u16) -> String {
    let widest = headers.iter().map(|h| h.len()).max().unwrap_or(0);
    let block = |row: &Vec<String>| {
        let lines: Vec<String> = headers
            .iter()
            .zip(row)
            .map(|(header, text)| named(header, widest, text, Some(width)))
            .collect();
        lines.join("\n")
    };
    rows.iter().map(block).collect::<Vec<_>>().join("\n\n")
}

/// Names and values, one to a line.
pub fn pairs(pairs: &[(&str, String)]) {
    let (widest, width) = (
        pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0),
        width(),
    );
    for (name, value) in pairs {
        line(&named(name, widest, &printable(value), width));
    }
}

/// A name and its value, which goes on below itself.
fn named(name: &str, widest: usize, value: &str, width: Option<u16>) -> String {
    let room = width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(widest + 2));
    let mut text = String::new();
    for (nth, part) in wrapped(value, room.max(WORD / 2)).iter().enumerate() {
        let name = if nth == 0 { name } else { "\n" };
        let pad = if nth == 0 { widest } else { widest + 1 };
        text.push_str(format!("{name:pad$}  {part}").trim_end_matches(' '));
    }
    text
}

/// Lines of at most `room` characters, broken between words where that is possible.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > room {
            let blank = rest[..=room].iter().rposition(|c| *c == ' ').filter(|at| *at > 0);
            let cut = blank.unwrap_or(room);
            let tail = rest.split_off(cut);
            lines.push(rest.iter().collect::<String>().trim_end().to_owned());
            rest = tail.into_iter().skip(usize::from(blank.is_some())).collect();
        }
        lines.push(rest.into_iter().collect());
    }
    lines
}

/// Whether messages may be coloured.
pub fn color() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !refused && io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// From here on times are shown, and read, in UTC.
pub fn in_utc() {
    let _ = ZONE.set(TimeZone::UTC);
}

/// The zone of people's times: that of TZ or of this machine.
pub fn zone() -> &'static TimeZone {
    ZONE.get_or_init(|| TimeZone::try_system().unwrap_or(TimeZone::UTC))
}

/// A moment for people, to the second, with its offset.
pub fn time(at: Timestamp) -> String {
    let zoned = at.to_zoned(zone().clone());
    if zoned.offset() == Offset::UTC {
        return farmhand_core::text::time(at);
    }
    zoned.strftime("%Y-%m-%d %H:%M:%S%:z").to_string()
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
    fn a_narrow_terminal_folds_between_words_and_cuts_nothing_off() {
        let text = sample(Some(50));
        assert!(text.lines().all(|l| l.trim_end().chars().count() <= 50), "{text}");
        for word in "job-with-a-name succeeded a reason of several words that is long".split(' ') {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(text.lines().count() > 2, "{text}");
    }

    #[test]
    fn a_long_value_goes_on_below_itself() {
        assert_eq!(wrapped("ab cd efghij", 5), ["ab cd", "efghi", "j"]);
        assert_eq!(wrapped("abc", 3), ["abc"]);
        assert_eq!(wrapped("a\nb", 9), ["a", "b"]);
        assert_eq!(wrapped("", 9), [""]);
        assert_eq!(
            named("why", 5, "one two three four five", Some(20)),
            "why    one two three\n       four five"
        );
        assert_eq!(named("why", 5, "", Some(20)), "why");
    }

    #[test]
    fn the_widest_columns_give_way_first_and_none_below_its_longest_word() {
        assert_eq!(fold(&[10, 40, 20], &[10, 8, 10], 60), Some(vec![10, 24, 20]));
        assert_eq!(fold(&[10, 40, 20], &[10, 8, 10], 36), Some(vec![10, 10, 10]));
        assert_eq!(fold(&[10, 40, 20], &[10, 8, 10], 33), None);
        assert_eq!(fold(&[10, 40, 20], &[10, 8, 10], 100), Some(vec![10, 40, 20]));
    }

    #[test]
    fn a_terminal_too_narrow_for_columns_shows_blocks() {
        assert_eq!(
            sample(Some(30)),
            "JOB     job-with-a-name\nSTATE   succeeded\nREASON  a reason of several\n        words that is long"
        );
    }

    #[test]
    fn a_text_of_others_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
    }
}
