//! Data on stdout, messages on stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use farmhand_control::{Refusal, past_moment};
use farmhand_core::document::Mistakes;
pub(crate) use farmhand_core::text::sanitize::one_line;
pub(crate) use farmhand_core::text::{count, count_of, span};
pub(crate) use farmhand_os::terminal::width;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde::Serialize;

use super::exit::{Exit, Outcome};
pub(crate) use super::table::{pairs, table, table_with_optional};

/// Exit code of a process that SIGPIPE ended, which Rust programs ignore.
const BROKEN_PIPE: i32 = 141;

/// Writes to stdout. When its reader has left (`| head`), the process ends quietly.
pub(crate) fn raw(bytes: &[u8]) {
    deliver(io::stdout().lock(), bytes, |error| {
        // When this fails too, the code says it.
        let _ = writeln!(
            io::stderr(),
            "error: the output could not be written\n  why:  {error}"
        );
    });
}

/// As [`raw`], to stderr.
pub(crate) fn raw_err(bytes: &[u8]) {
    deliver(io::stderr().lock(), bytes, |_| {});
}

fn deliver(mut to: impl Write, bytes: &[u8], tell: impl Fn(&io::Error)) {
    if let Err(error) = to.write_all(bytes).and_then(|()| to.flush()) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(BROKEN_PIPE);
        }
        tell(&error);
        std::process::exit(1);
    }
}

/// Writes one line to stdout. Much of it quotes what others wrote, which begins no line of its own.
pub(crate) fn line(text: &str) {
    raw(format!("{}\n", one_line(text)).as_bytes());
}

/// A message for people, on stderr: one line, as [`line`]. When stderr cannot be written, the work goes on: it may hold a lock, and its
/// exit code is the work's.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().write_all(format!("{}\n", one_line(text)).as_bytes());
}

/// Several lines of ours, as [`note`].
pub(crate) fn notes(text: &str) {
    text.lines().for_each(note);
}

/// Where tracing writes an event: all of it at once, with its line end. What an event quotes begins no line of its own; its
/// escapes are spelled out by tracing itself, which writes colours.
pub(crate) struct Log<W>(pub(crate) W);

impl<W: Write> Write for Log<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (text, end) = text.strip_suffix('\n').map_or((&*text, ""), |text| (text, "\n"));
        let parts: Vec<String> = text.split('\u{1b}').map(one_line).collect();
        let line = parts.join("\u{1b}") + end;
        self.0.write_all(line.as_bytes()).map(|()| event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// One JSON document, indented when a person looks at it.
pub(crate) fn json(value: &(impl Serialize + ?Sized)) {
    if !io::stdout().is_terminal() {
        return json_line(value);
    }
    match serde_json::to_string_pretty(value) {
        Ok(text) => raw(format!("{text}\n").as_bytes()),
        Err(error) => note(&format!("error: cannot write this as JSON: {error}")),
    }
}

/// One JSON document in one line.
pub(crate) fn json_line(value: &(impl Serialize + ?Sized)) {
    match serde_json::to_string(value) {
        Ok(text) => raw(format!("{text}\n").as_bytes()),
        Err(error) => note(&format!("error: cannot write this as JSON: {error}")),
    }
}

/// A list: all of it as JSON, or these rows of it as a table.
pub(crate) fn list(
    as_json: bool,
    all: &(impl Serialize + ?Sized),
    headers: &str,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Outcome {
    if as_json {
        json(all);
    } else {
        table(headers, rows);
    }
    Ok(Exit::Ok)
}

/// What was done: as JSON, or in a line.
pub(crate) fn done(as_json: bool, value: &(impl Serialize + ?Sized), text: &str) -> Outcome {
    if as_json {
        json(value);
    } else {
        line(text);
    }
    Ok(Exit::Ok)
}

/// Mistakes in files, for whoever sits at the terminal.
pub(crate) fn mistakes(all: &Mistakes) -> String {
    all.render(color(), width().unwrap_or(120).into())
}

/// Whether messages may be coloured.
pub(crate) fn color() -> bool {
    io::stderr().is_terminal() && color_is_wanted()
}

/// Whether data may be coloured.
pub(crate) fn data_color() -> bool {
    io::stdout().is_terminal() && color_is_wanted()
}

fn color_is_wanted() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !refused && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// From here on times are shown, and read, in UTC.
pub(crate) fn in_utc() {
    let _ = ZONE.set(TimeZone::UTC);
}

/// The zone of people's times: that of TZ or of this machine.
pub(crate) fn zone() -> &'static TimeZone {
    ZONE.get_or_init(|| TimeZone::try_system().unwrap_or(TimeZone::UTC))
}

/// The moment of the past that a flag gives, as people write it in that zone.
pub(crate) fn past(flag: &str, text: Option<&str>, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    text.map(|text| past_moment(flag, text, now, zone())).transpose()
}

/// A moment for people, to the second, with its offset.
pub(crate) fn time(at: Timestamp) -> String {
    let zoned = at.to_zoned(zone().clone());
    if zoned.offset() == Offset::UTC {
        return farmhand_core::text::time(at);
    }
    zoned.strftime("%Y-%m-%d %H:%M:%S%:z").to_string()
}

/// A text in which the moments are in UTC, as [`time`] shows them.
pub(crate) fn in_zone(text: &str) -> String {
    told_in(text, time)
}

/// Replaces what `2026-11-21T08:47:55Z`, also with a fraction, and `2026-11-21 08:47:55Z` stand for.
fn told_in(text: &str, time: impl Fn(Timestamp) -> String) -> String {
    let mut told = String::new();
    let mut rest = text;
    while let Some(end) = rest.find('Z') {
        let (head, tail) = rest.split_at(end + 1);
        let moment = |start: usize| Some((start, head.get(start..)?.parse::<Timestamp>().ok()?));
        // The text before it may have dashes and colons of its own.
        let found = (head.match_indices('-')).find_map(|(dash, _)| moment(dash.checked_sub(4)?));
        match found {
            Some((start, at)) => {
                told.push_str(&head[..start]);
                told.push_str(&time(at));
            }
            None => told.push_str(head),
        }
        rest = tail;
    }
    told + rest
}

/// As [`time`], or a dash.
pub(crate) fn maybe_time(at: Option<Timestamp>) -> String {
    at.map_or_else(dash, time)
}

/// A value, or a dash.
pub(crate) fn maybe(value: Option<impl ToString>) -> String {
    value.map_or_else(dash, |v| v.to_string())
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_within_a_text_are_told_in_the_zone() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let time = |at: Timestamp| at.to_zoned(zone.clone()).strftime("%H:%M%:z").to_string();
        for (text, told) in [
            (
                "run 7 runs on n-1 since 2027-03-10T12:00:00.25Z, attempt 2",
                "run 7 runs on n-1 since 13:00+01:00, attempt 2",
            ),
            (
                "Zed: next run 2027-07-10 12:00:00Z; (2027-03-10T12:00:00Z)",
                "Zed: next run 14:00+02:00; (13:00+01:00)",
            ),
            (
                "a-b-c: 2027-03-10 is no moment, nor is 12:00Z",
                "a-b-c: 2027-03-10 is no moment, nor is 12:00Z",
            ),
            ("", ""),
        ] {
            assert_eq!(told_in(text, time), told);
        }
    }

    #[test]
    fn what_an_event_quotes_begins_no_line_of_the_log() {
        let mut written = Vec::new();
        let event = "\u{1b}[32m INFO\u{1b}[0m a\nERROR forged\rb\n";
        Log(&mut written).write_all(event.as_bytes()).unwrap();
        let line = "\u{1b}[32m INFO\u{1b}[0m a\u{fffd}ERROR forged\u{fffd}b\n";
        assert_eq!(String::from_utf8(written).unwrap(), line);
    }

    #[test]
    fn a_text_of_others_cannot_steer_the_terminal() {
        assert_eq!(one_line("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
    }
}
