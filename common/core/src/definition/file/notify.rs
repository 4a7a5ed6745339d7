//! `[notify.NAME]`: targets of messages, defined once for all files read together.

use toml::de::DeValue;

use super::defined::{Defined, too_long, unknown};
use super::from_table::read;
use super::keys::NOTIFY;
use crate::definition::spec::job::JobSpec;
use crate::document::{Found, Problem, Reader, Source, Wrong};
use crate::notify::TargetSpec;

/// A target as a file defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDefinition {
    /// As in `[notify.NAME]`.
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

    /// Those whose names the prefix makes too long.
    pub fn too_long(&self, prefix: &str) -> Vec<Problem> {
        too_long(prefix, "target", self.0.places())
    }

    /// Reports the targets that a job names and no file defines.
    pub fn check(&self, job: &mut Reader<'_>, spec: &JobSpec) {
        let named = job.texts("notify");
        for name in spec.notify.iter().filter(|name| self.0.get(name).is_none()) {
            let wrong = unknown("notify", name, self.0.names());
            let what = format!("there is no target \"{name}\"");
            if let Some(found) = named.iter().find(|found| found.value == name) {
                let span = found.span.clone();
                job.sink().wrong(span, "notify", Wrong { what, ..wrong });
            }
        }
    }

    /// Each target once, by name.
    pub fn into_definitions(self) -> Vec<TargetDefinition> {
        self.0.into_definitions()
    }
}

fn read_target(mut table: Reader<'_>, name: &Found<&str>) -> TargetSpec {
    let sink = table.sink();
    let mut spec: TargetSpec = read(&mut table, NOTIFY);
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
    if let (Some(_), Some(span)) = (table.key_span("webhook"), table.key_span("webhook_file")) {
        sink.report(
            span,
            "`webhook` and `webhook_file` exclude each other",
            "keep one of them",
        );
    }
    let webhook = table.key_span("webhook").or(table.key_span("webhook_file"));
    for key in ["headers_file", "format"] {
        if let (None, Some(span)) = (&webhook, table.key_span(key)) {
            let what = format!("`{key}` without a webhook");
            sink.report(span, what, "add `webhook` or `webhook_file`");
        }
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
    spec
}
