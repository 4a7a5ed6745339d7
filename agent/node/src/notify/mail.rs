//! A message as a mail: plain text, 7 bits, so that every server takes it as it is.

use farmhand_store::notify::Delivery;
use jiff::Timestamp;
use mail_builder::MessageBuilder;
use mail_builder::headers::raw::Raw;
use serde_json::Value;

pub(crate) fn compose(
    delivery: &Delivery,
    from: &str,
    to: &[String],
    now: Timestamp,
) -> Result<String, String> {
    let host = from.rsplit_once('@').map_or("localhost", |(_, host)| host);
    let mut text = format!("{}\n\n", delivery.body["text"].as_str().unwrap_or_default());
    for key in KEYS {
        match &delivery.body[key] {
            Value::Null => {}
            Value::String(value) => text.push_str(&format!("{key}: {value}\n")),
            value => text.push_str(&format!("{key}: {value}\n")),
        }
    }
    text.push_str(&format!("delivery: {}\n", delivery.id));
    MessageBuilder::new()
        .from(from)
        .to(to.iter().map(String::as_str).collect::<Vec<_>>())
        .subject(subject(delivery))
        .date(now.as_second())
        // The same for every try, so that mail servers can see that it is one message.
        .message_id(format!("{}@{host}", delivery.id))
        .header("Auto-Submitted", Raw::new("auto-generated"))
        .header("X-Farmhand-Delivery", Raw::new(delivery.id.to_string()))
        .text_body(text)
        .write_to_string()
        .map_err(|e| e.to_string())
}

/// Of the body, in this order.
const KEYS: [&str; 18] = [
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
    "owner",
    "description",
    "runbook",
];

fn subject(delivery: &Delivery) -> String {
    let what = match delivery.job_id.as_deref() {
        Some(job) => format!("{job}: {}", delivery.topic),
        None => format!("{}: {}", delivery.target, delivery.topic),
    };
    format!("[farmhand] {what}")
}

#[cfg(test)]
mod tests {
    use farmhand_core::notify::{Channel, Topic};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mail_is_plain_ascii_in_short_lines_and_names_its_delivery() {
        let text = "naïve = a=b, and enough plain text ".repeat(10);
        let delivery = Delivery {
            id: uuid::Uuid::nil(),
            target: "ops".to_owned(),
            channel: Channel::Email,
            topic: Topic::Failure,
            job_id: Some("payroll".to_owned()),
            run_id: Some(1),
            body: json!({"text": text, "job": "payroll", "exit_code": 3, "signal": null, "owner": "payments"}),
            created_at: Timestamp::UNIX_EPOCH,
            tries: 1,
            old: false,
            spec: None,
        };
        let to = ["a@b".to_owned(), "c@d".to_owned()];
        let mail = compose(&delivery, "farm@example.org", &to, Timestamp::UNIX_EPOCH).unwrap();
        assert!(mail.is_ascii());
        assert!(mail.lines().all(|l| l.len() <= 78), "{mail}");
        for part in [
            "To: <a@b>, <c@d>\r\n",
            "Subject: [farmhand] payroll: failure\r\n",
            "Date: Thu, 1 Jan 1970 00:00:00 +0000\r\n",
            "Message-ID: <00000000-0000-0000-0000-000000000000@example.org>\r\n",
            "\r\n\r\nna=C3=AFve =3D a=3Db, and enough plain text ",
            "\r\nexit_code: 3\r\n",
            "\r\nowner: payments\r\n",
        ] {
            assert!(mail.contains(part), "{part}\n{mail}");
        }
        assert!(!mail.contains("signal"), "{mail}");
    }
}
