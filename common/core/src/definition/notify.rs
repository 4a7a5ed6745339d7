//! `[notify.NAME]`: targets of messages, defined once for all files read together.

use toml::de::DeValue;

use super::JobSpec;
use super::needs::{is_resource_name, resource_name, unknown};
use super::twice::Defined;
use crate::document::{Found, Problem, Reader, Source, Wrong, filled, one_of};
use crate::notify::{TargetSpec, Topic, Url, email_address};

/// A target as a file defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDefinition {
    pub name: String,
    pub spec: TargetSpec,
    /// Index of the source.
    pub source: usize,
}

/// The targets of all files.
#[derive(Debug, Default)]
pub(super) struct Targets(Defined<TargetDefinition>);

impl Targets {
    /// Reads the `[notify]` table of one file.
    pub fn read(&mut self, source: usize, table: &Reader<'_>) {
        let fix = "write [notify.NAME] on a line of its own, and webhook = \"https://…\" below it";
        self.0
            .read(("target", fix), source, table, |reader, name| TargetDefinition {
                name: name.value.to_owned(),
                spec: read_target(reader, name),
                source,
            });
    }

    /// Targets that two files define.
    pub fn duplicates(&self, sources: &[Source]) -> Vec<Problem> {
        self.0.duplicates("target", sources)
    }

    /// Reads the targets that a job names, and reports those that no file defines.
    pub fn read_job(&self, job: &mut Reader<'_>, spec: &mut JobSpec) {
        for name in job.list("notify", true, resource_name).unwrap_or_default() {
            if spec.notify.contains(&name.value) {
                let what = format!("`notify`: \"{}\" is named twice", name.value);
                job.sink()
                    .report(name.span, what, "once is enough: it is told once");
                continue;
            }
            if self.0.get(&name.value).is_none() {
                let wrong = unknown("notify", &name.value, self.0.names());
                let what = format!("there is no target \"{}\"", name.value);
                job.sink().wrong(name.span, "notify", Wrong { what, ..wrong });
            }
            spec.notify.push(name.value);
        }
        // The order says nothing, so a new order is no new definition.
        spec.notify.sort_unstable();
    }

    /// Each target once, by name.
    pub fn into_definitions(self) -> Vec<TargetDefinition> {
        self.0.into_definitions()
    }
}

fn read_target(mut table: Reader<'_>, name: &Found<&str>) -> TargetSpec {
    let sink = table.sink();
    let mut spec = TargetSpec::default();
    table.maybe("webhook", &mut spec.webhook, url);
    table.maybe("webhook_file", &mut spec.webhook_file, file_name);
    table.maybe("headers_file", &mut spec.headers_file, file_name);
    if let Some(list) = table.list("email", true, address) {
        spec.email = list.into_iter().map(|found| found.value).collect();
    }
    let words: Vec<(&str, Topic)> = Topic::ALL.iter().map(|t| (t.as_str(), *t)).collect();
    if let Some(list) = table.list("on", true, one_of(&words)) {
        spec.on = list.into_iter().map(|found| found.value).collect();
        spec.on.sort_unstable();
        spec.on.dedup();
        if let (true, Some(found)) = (spec.on.is_empty(), table.raw("on")) {
            let none = matches!(found.value, DeValue::Array(items) if items.is_empty());
            if none {
                sink.report(
                    found.span,
                    "`on`: it is empty, so nothing would ever be sent",
                    "leave it out for failure, recovery, takeover and deadline, or name some of these and slow",
                );
            }
        }
    }
    if let (Some(_), Some(span)) = (table.key_span("webhook"), table.key_span("webhook_file")) {
        sink.report(
            span,
            "`webhook` and `webhook_file` exclude each other",
            "keep one of them",
        );
    }
    let webhook = table.key_span("webhook").or(table.key_span("webhook_file"));
    if let (None, Some(span)) = (&webhook, table.key_span("headers_file")) {
        sink.report(
            span,
            "`headers_file` without a webhook",
            "add `webhook` or `webhook_file`",
        );
    }
    // One that is there and wrong has been reported.
    let email = table.raw("email");
    let nobody = email.is_none_or(|found| matches!(found.value, DeValue::Array(items) if items.is_empty()));
    if webhook.is_none() && nobody {
        sink.report(
            name.span.clone(),
            format!("target `{}` leads nowhere", name.value),
            "add webhook = \"https://…\", webhook_file = \"NAME\" or email = [\"ops@example.org\"]",
        );
    }
    table.finish(&[
        ("url", "did you mean `webhook`?"),
        ("url_file", "did you mean `webhook_file`?"),
        ("headers", "put them into a file on the agents: `headers_file`"),
        ("mail", "did you mean `email`?"),
        ("to", "did you mean `email`?"),
        ("events", "did you mean `on`?"),
    ]);
    spec
}

fn url(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = filled(value)?;
    match Url::parse(&text) {
        Ok(_) => Ok(text),
        Err(why) => Err(Wrong::new(
            why,
            "for example \"https://hooks.example.org/farm\"; a secret one goes into `webhook_file`",
        )),
    }
}

fn address(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = filled(value)?;
    match email_address(&text) {
        Ok(()) => Ok(text),
        Err(why) => Err(Wrong::new(why, "for example \"ops@example.org\"")),
    }
}

/// A file of the agents' directory of secrets. A name and no path: a job file must not make an agent read what
/// its author could not.
fn file_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    if is_resource_name(&name) {
        return Ok(name);
    }
    Err(Wrong::new(
        "it is no plain file name",
        "name a file in the agents' `secrets_dir`, without a path",
    ))
}
