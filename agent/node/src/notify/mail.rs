//! A message as a mail: plain text, 7 bits, so that every server takes it as it is.

use farmhand_store::notify::Delivery;
use jiff::Timestamp;
use serde_json::Value;

/// The longest line of a header or body here; RFC 5322 allows 998.
const LINE: usize = 76;

/// The mail, header and body, with CRLF.
pub fn compose(delivery: &Delivery, from: &str, to: &[String], now: Timestamp) -> String {
    let text = delivery.body["text"].as_str().unwrap_or_default();
    let host = from.rsplit_once('@').map_or("localhost", |(_, host)| host);
    let date = jiff::fmt::rfc2822::to_string(&now.to_zoned(jiff::tz::TimeZone::UTC)).unwrap_or_default();
    let mut lines = vec![
        format!("From: {from}"),
        format!("To: {}", to.join(",\r\n ")),
        format!("Subject: {}", subject(delivery)),
        format!("Date: {date}"),
        // The same for every try, so that mail servers can see that it is one message.
        format!("Message-ID: <{}@{host}>", delivery.id),
        "Auto-Submitted: auto-generated".to_owned(),
        format!("X-Farmhand-Delivery: {}", delivery.id),
        "MIME-Version: 1.0".to_owned(),
        "Content-Type: text/plain; charset=utf-8".to_owned(),
        "Content-Transfer-Encoding: quoted-printable".to_owned(),
        String::new(),
    ];
    lines.push(quoted_printable(text));
    lines.push(String::new());
    for key in KEYS {
        match &delivery.body[key] {
            Value::Null => {}
            Value::String(value) => lines.push(quoted_printable(&format!("{key}: {value}"))),
            value => lines.push(quoted_printable(&format!("{key}: {value}"))),
        }
    }
    lines.push(format!("delivery: {}", delivery.id));
    lines.push(String::new());
    lines.join("\r\n")
}

/// Of the body, in this order.
const KEYS: [&str; 15] = [
    "event",
    "job",
    "run",
    "attempt",
    "node",
    "due",
    "outcome",
    "exit_code",
    "signal",
    "reason",
    "failing_since",
    "first_failed_run",
    "failures",
    "deadline",
    "last_success",
];

fn subject(delivery: &Delivery) -> String {
    let what = match delivery.job_id.as_deref() {
        Some(job) => format!("{job}: {}", delivery.topic),
        None => format!("{}: {}", delivery.target, delivery.topic),
    };
    // A name of the farm's is of letters, digits, `.`, `_` and `-`; the row may say anything.
    let plain = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    format!("[farmhand] {}", what.chars().map(plain).collect::<String>())
}

/// RFC 2045, 6.7.
fn quoted_printable(text: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    let mut put = |piece: &str, last: bool| {
        // A soft break keeps its own place.
        if length + piece.len() > LINE - usize::from(!last) {
            out.push_str("=\r\n");
            length = 0;
        }
        out.push_str(piece);
        length += piece.len();
    };
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let last = at + 1 == bytes.len();
        let plain = matches!(byte, b' '..=b'~') && *byte != b'=' && !(last && *byte == b' ');
        if plain {
            put(char::from(*byte).encode_utf8(&mut [0; 4]), last);
        } else {
            put(&format!("={byte:02X}"), last);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use farmhand_core::notify::{Channel, Topic};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mail_is_plain_ascii_in_short_lines_and_names_its_delivery() {
        let text = "naïve = a=b ".repeat(20);
        let delivery = Delivery {
            id: uuid::Uuid::nil(),
            target: "ops".to_owned(),
            channel: Channel::Email,
            topic: Topic::Failure,
            job_id: Some("payroll".to_owned()),
            run_id: Some(1),
            body: json!({"text": text, "job": "payroll", "exit_code": 3, "signal": null}),
            created_at: Timestamp::UNIX_EPOCH,
            tries: 1,
            old: false,
            spec: None,
        };
        let to = ["a@b".to_owned(), "c@d".to_owned()];
        let mail = compose(&delivery, "farm@example.org", &to, Timestamp::UNIX_EPOCH);
        assert!(mail.is_ascii());
        assert!(mail.lines().all(|l| l.len() <= LINE), "{mail}");
        for part in [
            "To: a@b,\r\n c@d\r\n",
            "Subject: [farmhand] payroll: failure\r\n",
            "Date: Thu, 1 Jan 1970 00:00:00 +0000\r\n",
            "Message-ID: <00000000-0000-0000-0000-000000000000@example.org>\r\n",
            "\r\n\r\nna=C3=AFve =3D a=3Db ",
            "\r\nexit_code: 3\r\n",
        ] {
            assert!(mail.contains(part), "{part}\n{mail}");
        }
        assert!(!mail.contains("signal"), "{mail}");
    }

    #[test]
    fn a_space_at_the_end_of_a_line_is_kept() {
        assert_eq!(quoted_printable("a "), "a=20");
        assert_eq!(quoted_printable(""), "");
    }
}
