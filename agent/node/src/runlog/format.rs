//! One line as journald or a syslog daemon takes it.

use jiff::Timestamp;

use super::about::About;
use super::lines::Line;
use crate::ship_window::log_stream;
use farmhand_warden_client::Stream;

/// Facility `daemon`.
const FACILITY: u8 = 3;
/// The private enterprise number that RFC 5612 sets aside for documentation: Farmhand has none of its own.
const ENTERPRISE: &str = "32473";
/// Longest APP-NAME and HOSTNAME of RFC 5424.
const APP_NAME_MAX: usize = 48;
const HOSTNAME_MAX: usize = 255;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The journal's native protocol: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.
    Journald,
    /// RFC 5424 with structured data.
    Syslog,
}

impl Format {
    /// Where the service listens unless told otherwise.
    pub fn default_socket(self) -> &'static str {
        match self {
            Self::Journald => "/run/systemd/journal/socket",
            Self::Syslog => "/dev/log",
        }
    }

    /// Bytes of output in one entry, at most. With its fields, a journal entry then fits a datagram under the
    /// kernel's default for socket buffers (208 KiB), and a syslog message what daemons take by default (8 KiB).
    fn line_max(self) -> usize {
        match self {
            Self::Journald => 48 << 10,
            Self::Syslog => 7 << 10,
        }
    }
}

pub(crate) struct Writer {
    format: Format,
    node: String,
}

impl Writer {
    pub(super) fn new(format: Format, node: &str) -> Self {
        Self {
            format,
            node: node.to_owned(),
        }
    }

    pub(crate) fn line_max(&self) -> usize {
        self.format.line_max()
    }

    pub(super) fn entry(&self, about: &About, line: &Line) -> Vec<u8> {
        match self.format {
            Format::Journald => self.journal(about, line),
            Format::Syslog => self.syslog(about, line),
        }
    }

    fn journal(&self, about: &About, line: &Line) -> Vec<u8> {
        let mut out = Vec::with_capacity(line.bytes.len() + 320);
        field(&mut out, "MESSAGE", &line.bytes);
        field(&mut out, "PRIORITY", severity(line.stream).to_string().as_bytes());
        field(&mut out, "SYSLOG_FACILITY", FACILITY.to_string().as_bytes());
        field(
            &mut out,
            "SYSLOG_IDENTIFIER",
            format!("farmhand/{}", about.job_id).as_bytes(),
        );
        field(&mut out, "FARMHAND_JOB", about.job_id.as_bytes());
        field(&mut out, "FARMHAND_RUN", about.id.run_id.to_string().as_bytes());
        field(
            &mut out,
            "FARMHAND_ATTEMPT",
            about.id.attempt.to_string().as_bytes(),
        );
        if let Some(parent) = about.parent_run {
            field(&mut out, "FARMHAND_PARENT_RUN", parent.to_string().as_bytes());
        }
        field(&mut out, "TRACEPARENT", about.traceparent.as_bytes());
        field(&mut out, "FARMHAND_NODE", self.node.as_bytes());
        field(&mut out, "FARMHAND_STREAM", name(line.stream).as_bytes());
        field(&mut out, "FARMHAND_TIME", time(line.at_ms).to_string().as_bytes());
        if line.goes_on {
            field(&mut out, "FARMHAND_GOES_ON", b"1");
        }
        out
    }

    fn syslog(&self, about: &About, line: &Line) -> Vec<u8> {
        let goes_on = if line.goes_on { " goes_on=\"1\"" } else { "" };
        let mut more = String::new();
        if let Some(parent) = about.parent_run {
            more += &format!(" parent_run=\"{parent}\"");
        }
        more += &format!(" traceparent=\"{}\"", about.traceparent);
        let mut out = format!(
            "<{}>1 {} {} {} {} {} [farmhand@{ENTERPRISE} job=\"{}\" run=\"{}\" attempt=\"{}\"{more} \
             node=\"{}\" stream=\"{}\"{goes_on}] ",
            FACILITY * 8 + severity(line.stream),
            time(line.at_ms),
            word(&self.node, HOSTNAME_MAX),
            word(&format!("farmhand/{}", about.job_id), APP_NAME_MAX),
            about.id.run_id,
            name(line.stream),
            escaped(&about.job_id),
            about.id.run_id,
            about.id.attempt,
            escaped(&self.node),
            name(line.stream),
        )
        .into_bytes();
        out.extend_from_slice(&line.bytes);
        out
    }
}

/// `NAME=value`, or with its length in front when it has a newline.
fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Syslog's numbers: what a command says on stderr stands out, but is no error by itself.
fn severity(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => 6,
        Stream::Stderr => 4,
        Stream::Agent => 5,
    }
}

fn name(stream: Stream) -> &'static str {
    log_stream(stream).as_str()
}

fn time(at_ms: i64) -> Timestamp {
    Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A header field: printable ASCII without spaces.
fn word(text: &str, max: usize) -> String {
    let printable = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    let word: String = text.chars().map(printable).take(max).collect();
    if word.is_empty() { "-".to_owned() } else { word }
}

/// A parameter's value in structured data.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '"' | '\\' | ']') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use farmhand_warden_client::wire::AttemptId;

    fn written(format: Format, job_id: &str, stream: Stream, text: &[u8], goes_on: bool) -> Vec<u8> {
        let about = About {
            id: AttemptId {
                run_id: 12,
                attempt: 3,
            },
            job_id: job_id.to_owned(),
            traceparent: "00-aa-bb-01".to_owned(),
            parent_run: Some(7),
            dir: std::path::PathBuf::new(),
        };
        let line = Line {
            stream,
            at_ms: 1_795_269_600_250,
            bytes: text.to_vec(),
            goes_on,
            start: 0,
            end: 0,
        };
        Writer::new(format, "web 1").entry(&about, &line)
    }

    #[test]
    fn a_journal_entry_has_a_field_per_line_and_lengths_where_a_newline_needs_them() {
        let entry = written(
            Format::Journald,
            "mail",
            Stream::Stderr,
            b"\x1b[1mbold\xff\0",
            false,
        );
        let mut expected = b"MESSAGE=\x1b[1mbold\xff\0\n".to_vec();
        expected.extend_from_slice(
            b"PRIORITY=4\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=farmhand/mail\nFARMHAND_JOB=mail\nFARMHAND_RUN=12\n\
              FARMHAND_ATTEMPT=3\nFARMHAND_PARENT_RUN=7\nTRACEPARENT=00-aa-bb-01\nFARMHAND_NODE=web 1\nFARMHAND_STREAM=stderr\n\
              FARMHAND_TIME=2026-11-21T14:00:00.25Z\n",
        );
        assert_eq!(entry, expected, "{}", String::from_utf8_lossy(&entry));
        let mut field_with_newline = Vec::new();
        field(&mut field_with_newline, "MESSAGE", b"a\nb");
        assert_eq!(field_with_newline, b"MESSAGE\n\x03\0\0\0\0\0\0\0a\nb\n");
    }

    #[test]
    fn a_syslog_message_is_rfc_5424_whatever_the_names_contain() {
        let message = written(Format::Syslog, "a\"]\\ü", Stream::Stdout, b"hello \xff", true);
        let expected = b"<30>1 2026-11-21T14:00:00.25Z web_1 farmhand/a\"]\\_ 12 stdout [farmhand@32473 \
            job=\"a\\\"\\]\\\\\xc3\xbc\" run=\"12\" attempt=\"3\" parent_run=\"7\" \
            traceparent=\"00-aa-bb-01\" node=\"web 1\" stream=\"stdout\" \
            goes_on=\"1\"] hello \xff";
        assert_eq!(message, expected, "{}", String::from_utf8_lossy(&message));
    }

    #[test]
    fn the_longest_entry_fits_what_services_take_by_default() {
        let name = "j".repeat(200);
        for (format, limit) in [(Format::Journald, 208 << 10), (Format::Syslog, 8 << 10)] {
            let line = vec![b'x'; format.line_max()];
            let entry = written(format, &name, Stream::Stdout, &line, true);
            assert!(entry.len() <= limit, "{format:?}: {}", entry.len());
        }
    }
}
