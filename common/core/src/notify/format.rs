//! What services expect of a webhook: the same message in their own form.

use serde_json::{Map, Value, json};

use super::address::Url;
use super::topic::Topic;

crate::words! {
    /// The service that a webhook leads to.
    Format {
        /// An incoming webhook of Slack.
        Slack = "slack",
        /// A workflow of Microsoft Teams that takes webhook requests.
        Teams = "teams",
        /// Version 2 of PagerDuty's Events API.
        PagerDuty = "pagerduty",
        /// The Alert API of Opsgenie, and of Jira Service Management.
        Opsgenie = "opsgenie",
        /// A topic of ntfy.
        Ntfy = "ntfy",
    }
}

/// What is posted, and to which path of the target's host.
#[derive(Debug, PartialEq, Eq)]
pub struct Shaped {
    /// With its query.
    pub path: String,
    /// JSON.
    pub body: Value,
}

/// Longest summary that PagerDuty takes, and longest message of Opsgenie, in characters.
const SUMMARY: usize = 1_024;
const MESSAGE: usize = 130;
/// Of a job's name in a key, so that the key is shorter than the 255 characters that PagerDuty takes.
const NAME: usize = 180;

/// The parts of a message that a form is made of.
struct Parts<'a> {
    message: &'a Map<String, Value>,
    event: Topic,
    text: &'a str,
}

impl Format {
    /// The message (`docs/guides/notifications.md`) as this service takes it.
    pub fn shape(self, url: &Url, message: &Map<String, Value>) -> Result<Shaped, String> {
        let parts = Parts {
            message,
            event: message
                .get("event")
                .and_then(|event| serde_json::from_value(event.clone()).ok())
                .unwrap_or(Topic::Other),
            text: message.get("text").and_then(Value::as_str).unwrap_or_default(),
        };
        let path = url.path.clone();
        Ok(match self {
            Self::Slack => Shaped {
                path,
                body: json!({"text": parts.slack()}),
            },
            Self::Teams => Shaped {
                path,
                body: parts.teams(),
            },
            Self::PagerDuty => parts.pagerduty(&path)?,
            Self::Opsgenie => parts.opsgenie(path),
            Self::Ntfy => parts.ntfy(&path)?,
        })
    }
}

impl<'a> Parts<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.message.get(key)?.as_str()
    }

    /// What is known beside the sentence.
    fn facts(&self) -> Vec<(&'static str, &'a str)> {
        [
            ("Owner", "owner"),
            ("What it is for", "description"),
            ("Runbook", "runbook"),
        ]
        .into_iter()
        .filter_map(|(title, key)| Some((title, self.get(key)?)))
        .collect()
    }

    /// A runbook may also be a word; only an address can be opened.
    fn runbook(&self) -> Option<&'a str> {
        self.get("runbook")
            .filter(|runbook| runbook.starts_with("https://") || runbook.starts_with("http://"))
    }

    /// One for what begins and ends together.
    fn key(&self) -> String {
        let job: String = self.get("job").unwrap_or("test").chars().take(NAME).collect();
        match self.event {
            Topic::Failure | Topic::Recovery | Topic::Deadline => format!("farmhand/{job}"),
            event => {
                let run = self
                    .message
                    .get("run")
                    .and_then(Value::as_i64)
                    .unwrap_or_default();
                format!("farmhand/{job}/{event}/{run}")
            }
        }
    }

    /// What a service calls trouble, a warning, its end, and the rest.
    fn graded<T>(&self, trouble: T, warning: T, recovery: T, other: T) -> T {
        match self.event {
            Topic::Failure | Topic::Deadline => trouble,
            Topic::Takeover | Topic::Slow => warning,
            Topic::Recovery => recovery,
            Topic::Test | Topic::Other => other,
        }
    }

    fn slack(&self) -> String {
        // As Slack asks for it: these begin links and entities.
        let escaped = |text: &str| {
            text.replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
        };
        let facts = self.facts();
        let facts = facts
            .iter()
            .map(|(title, fact)| format!("\n{title}: {}", escaped(fact)));
        escaped(self.text) + &facts.collect::<String>()
    }

    fn teams(&self) -> Value {
        let colour = self.graded("Attention", "Warning", "Good", "Default");
        let facts: Vec<Value> = (self.facts().iter())
            .map(|(title, fact)| json!({"title": title, "value": fact}))
            .collect();
        let mut body = vec![
            json!({"type": "TextBlock", "text": self.text, "wrap": true, "weight": "Bolder", "color": colour}),
        ];
        if !facts.is_empty() {
            body.push(json!({"type": "FactSet", "facts": facts}));
        }
        let open = self
            .runbook()
            .map(|url| json!({"type": "Action.OpenUrl", "title": "Runbook", "url": url}));
        json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "contentUrl": null,
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "body": body,
                    "actions": open.into_iter().collect::<Vec<_>>(),
                },
            }],
        })
    }

    fn pagerduty(&self, path: &str) -> Result<Shaped, String> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let key = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("routing_key="));
        let key = key.filter(|key| !key.is_empty()).ok_or(
            "its URL has no key: in `webhook_file`, write https://events.pagerduty.com/v2/enqueue?routing_key=KEY",
        )?;
        let severity = self.graded("error", "warning", "info", "info");
        let links = self.runbook().map(|url| json!({"href": url, "text": "Runbook"}));
        let body = json!({
            "routing_key": key,
            "event_action": if self.event == Topic::Recovery { "resolve" } else { "trigger" },
            "dedup_key": self.key(),
            "payload": {
                "summary": cut(self.text, SUMMARY),
                "source": self.get("node").unwrap_or("farmhand"),
                "severity": severity,
                "timestamp": self.get("at"),
                "component": self.get("job"),
                "group": self.get("owner"),
                "class": self.event,
                "custom_details": self.message,
            },
            "client": "Farmhand",
            "links": links.into_iter().collect::<Vec<_>>(),
        });
        Ok(Shaped {
            path: path.to_owned(),
            body,
        })
    }

    fn opsgenie(&self, path: String) -> Shaped {
        if self.event == Topic::Recovery {
            let path = format!(
                "{}/{}/close?identifierType=alias",
                path.trim_end_matches('/'),
                encoded(&self.key())
            );
            return Shaped {
                path,
                body: json!({"source": "Farmhand", "note": self.text}),
            };
        }
        // Strings alone are taken as details.
        let details: Map<String, Value> = (self.message.iter())
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| {
                (
                    key.clone(),
                    value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned)
                        .into(),
                )
            })
            .collect();
        let priority = self.graded("P2", "P4", "P5", "P5");
        let body = json!({
            "message": cut(self.text, MESSAGE),
            "alias": self.key(),
            "description": self.text,
            "details": details,
            "entity": self.get("job").unwrap_or_default(),
            "source": "Farmhand",
            "priority": priority,
        });
        Shaped { path, body }
    }

    fn ntfy(&self, path: &str) -> Result<Shaped, String> {
        let (place, query) = path.split_at(path.find('?').unwrap_or(path.len()));
        let (place, topic) = place.trim_end_matches('/').rsplit_once('/').unwrap_or_default();
        if topic.is_empty() {
            return Err("its URL has no topic: write https://ntfy.sh/TOPIC".to_owned());
        }
        let priority = self.graded(4, 3, 3, 3);
        let tag = self.graded(
            "rotating_light",
            "warning",
            "white_check_mark",
            "information_source",
        );
        let mut body = json!({
            "topic": topic,
            "title": format!("{}: {}", self.get("job").unwrap_or("Farmhand"), self.event),
            "message": self.text,
            "priority": priority,
            "tags": [tag],
        });
        if let Some(runbook) = self.runbook() {
            body["click"] = runbook.into();
        }
        Ok(Shaped {
            path: format!("{place}/{query}"),
            body,
        })
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// As one segment of a path.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
