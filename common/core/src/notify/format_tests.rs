//! What each service's own documentation requires of a request, held against what is sent.

use super::*;

fn message(event: &str) -> Map<String, Value> {
    let value = json!({
        "version": 1, "id": "0c5d", "target": "ops", "at": "2026-11-21T03:04:10Z", "event": event,
        "text": format!("pay <b> & roll failed: {}", "x".repeat(2_000)),
        "job": "pay roll/ä", "run": 812, "attempt": 3, "node": "n2", "due": null, "exit_code": 3,
        "owner": "payments", "description": null, "runbook": "https://wiki.example.com/payroll",
    });
    value.as_object().unwrap().clone()
}

fn shape(format: Format, url: &str, event: &str) -> Shaped {
    format.shape(&Url::parse(url).unwrap(), &message(event)).unwrap()
}

fn length(value: &Value) -> usize {
    value.as_str().unwrap().chars().count()
}

const EVENTS: [&str; 6] = ["failure", "recovery", "takeover", "deadline", "slow", "test"];

#[test]
fn slack_gets_a_text_in_which_its_signs_are_escaped() {
    for event in EVENTS {
        let Shaped { path, body } = shape(Format::Slack, "https://hooks.slack.com/services/T/B/X", event);
        assert_eq!(path, "/services/T/B/X");
        assert_eq!(body.as_object().unwrap().len(), 1);
        let text = body["text"].as_str().unwrap();
        assert!(text.starts_with("pay &lt;b&gt; &amp; roll failed"), "{text}");
        assert!(
            text.ends_with("\nOwner: payments\nRunbook: https://wiki.example.com/payroll"),
            "{text}"
        );
    }
}

#[test]
fn teams_gets_one_adaptive_card() {
    for event in EVENTS {
        let Shaped { path, body } = shape(Format::Teams, "https://x.api.powerplatform.com/a?sig=s", event);
        assert_eq!(path, "/a?sig=s");
        assert_eq!(body["type"], "message");
        let attachment = &body["attachments"][0];
        assert_eq!(
            attachment["contentType"],
            "application/vnd.microsoft.card.adaptive"
        );
        let card = &attachment["content"];
        assert_eq!(
            (&card["type"], &card["version"]),
            (&json!("AdaptiveCard"), &json!("1.4"))
        );
        let colour = card["body"][0]["color"].as_str().unwrap();
        assert!(
            [
                "Default",
                "Dark",
                "Light",
                "Accent",
                "Good",
                "Warning",
                "Attention"
            ]
            .contains(&colour)
        );
        assert_eq!(card["body"][0]["type"], "TextBlock");
        assert_eq!(
            card["body"][1]["facts"][0],
            json!({"title": "Owner", "value": "payments"})
        );
        assert_eq!(card["actions"][0]["type"], "Action.OpenUrl");
    }
    let mut short = message("failure");
    short.retain(|key, _| !["owner", "runbook"].contains(&key.as_str()));
    let url = Url::parse("https://h/").unwrap();
    let card = Format::Teams.shape(&url, &short).unwrap().body["attachments"][0]["content"].clone();
    assert_eq!(
        (card["body"].as_array().unwrap().len(), &card["actions"]),
        (1, &json!([]))
    );
}

#[test]
fn pagerduty_gets_events_whose_recovery_resolves_what_a_failure_triggered() {
    let url = "https://events.pagerduty.com/v2/enqueue?routing_key=R0123456789012345678901234567890";
    for event in EVENTS {
        let Shaped { path, body } = shape(Format::PagerDuty, url, event);
        assert_eq!(path, "/v2/enqueue", "the key is in the body alone");
        assert_eq!(body["routing_key"], "R0123456789012345678901234567890");
        let action = if event == "recovery" { "resolve" } else { "trigger" };
        assert_eq!(body["event_action"], action);
        let payload = &body["payload"];
        assert!((1..=1_024).contains(&length(&payload["summary"])));
        assert!(length(&payload["source"]) > 0 && (1..=255).contains(&length(&body["dedup_key"])));
        let severity = payload["severity"].as_str().unwrap();
        assert!(["critical", "error", "warning", "info"].contains(&severity));
        assert_eq!(payload["timestamp"], "2026-11-21T03:04:10Z");
        assert!(payload["custom_details"].is_object());
    }
    let key = |event| shape(Format::PagerDuty, url, event).body["dedup_key"].clone();
    assert_eq!(key("failure"), key("recovery"));
    assert_eq!(key("deadline"), key("recovery"));
    assert_ne!(key("takeover"), key("recovery"));
    let keyless = Url::parse("https://events.pagerduty.com/v2/enqueue").unwrap();
    let wrong = Format::PagerDuty
        .shape(&keyless, &message("failure"))
        .unwrap_err();
    assert!(wrong.contains("routing_key"), "{wrong}");
}

#[test]
fn opsgenie_gets_alerts_and_a_recovery_closes_them() {
    let url = "https://api.opsgenie.com/v2/alerts";
    for event in EVENTS.into_iter().filter(|event| *event != "recovery") {
        let Shaped { path, body } = shape(Format::Opsgenie, url, event);
        assert_eq!(path, "/v2/alerts");
        assert!((1..=130).contains(&length(&body["message"])));
        assert!(length(&body["alias"]) <= 512 && length(&body["description"]) <= 15_000);
        assert!(["P1", "P2", "P3", "P4", "P5"].contains(&body["priority"].as_str().unwrap()));
        let details = body["details"].as_object().unwrap();
        assert!(details.values().all(Value::is_string), "{details:?}");
        assert_eq!((&details["run"], details.get("due")), (&json!("812"), None));
    }
    let Shaped { path, body } = shape(Format::Opsgenie, url, "recovery");
    assert_eq!(
        path,
        "/v2/alerts/farmhand%2Fpay%20roll%2F%C3%A4/close?identifierType=alias"
    );
    assert_eq!(body["source"], "Farmhand");
}

#[test]
fn ntfy_gets_json_at_its_root_with_the_topic_of_the_url() {
    for (url, place) in [
        ("https://ntfy.sh/farm-alerts", "/"),
        ("https://example.org/ntfy/farm-alerts?auth=x", "/ntfy/?auth=x"),
    ] {
        for event in EVENTS {
            let Shaped { path, body } = shape(Format::Ntfy, url, event);
            assert_eq!((path.as_str(), &body["topic"]), (place, &json!("farm-alerts")));
            assert!((1..=5).contains(&body["priority"].as_i64().unwrap()));
            assert_eq!(body["title"], format!("pay roll/ä: {event}"));
            assert_eq!(body["click"], "https://wiki.example.com/payroll");
            assert!(body["tags"].is_array() && length(&body["message"]) > 0);
        }
    }
    let bare = Url::parse("https://ntfy.sh/").unwrap();
    assert!(
        Format::Ntfy
            .shape(&bare, &message("failure"))
            .unwrap_err()
            .contains("TOPIC")
    );
}
