//! A CronJob that is read, and what is said about it.

use serde_json::Value;

use crate::proposed::{Machine, Report, Store};

pub(super) struct CronJob<'a> {
    pub object: &'a Value,
    pub machine: &'a Machine<'a>,
    /// The CronJobs of the import are of several namespaces.
    pub many_namespaces: bool,
    pub report: &'a mut Report,
    pub store: &'a mut Store,
}

impl CronJob<'_> {
    pub(super) fn note(&mut self, text: &str) {
        let text = format!("CronJob {}: {text}", name_of(self.object));
        self.report.note(0, text);
    }
}

pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or("?")
}

/// A scalar as a command or a variable has it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
