//! `[notify.NAME]`: targets of messages, defined once for all files read together.

use super::defined::{Defined, unknown};
use super::from_table::read;
use super::keys::NOTIFY;
use crate::definition::spec::job::JobSpec;
use crate::document::{Reader, Spanned, Wrong};
use crate::notify::TargetSpec;

/// A target as a file defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetDefinition {
    /// As in `[notify.NAME]`.
    pub name: String,
    pub spec: TargetSpec,
    /// Index of the source.
    pub source: usize,
}

pub(super) type Targets = Defined<TargetDefinition>;

impl Targets {
    /// Reads the `[notify]` table of one file.
    pub fn read(&mut self, source: usize, table: &Reader<'_>) {
        let fix = "write [notify.NAME] on a line of its own, and webhook = \"https://…\" below it";
        self.read_tables(("target", fix), source, table, |reader, name| TargetDefinition {
            name: name.value.to_owned(),
            spec: read_target(reader, name),
            source,
        });
    }

    /// Reports the targets that a job names and no file defines.
    pub fn check(&self, job: &mut Reader<'_>, spec: &JobSpec) {
        let named = job.texts("notify");
        for name in spec.notify.iter().filter(|name| self.get(name).is_none()) {
            let wrong = unknown("notify", name, self.names());
            let what = format!("there is no target \"{name}\"");
            if let Some(found) = named.iter().find(|found| found.value == name) {
                let span = found.span.clone();
                job.sink().wrong(span, "notify", Wrong { what, ..wrong });
            }
        }
    }
}

fn read_target(mut table: Reader<'_>, name: &Spanned<&str>) -> TargetSpec {
    let sink = table.sink();
    let mut spec: TargetSpec = read(&mut table, NOTIFY);
    spec.on.sort_unstable();
    spec.on.dedup();
    if let Some(found) = table.raw("on").filter(Spanned::is_empty_list) {
        sink.report(
            found.span,
            "`on`: it is empty, so nothing would ever be sent",
            "leave it out for failure, recovery, takeover and deadline, or name some of these and slow",
        );
    }
    if table.key_span("webhook").is_some() {
        let what = "`webhook` and `webhook_file` exclude each other";
        table.refuse("webhook_file", what, "keep one of them");
    }
    let webhook = table.key_span("webhook").or(table.key_span("webhook_file"));
    for key in ["headers_file", "format"].iter().filter(|_| webhook.is_none()) {
        let what = format!("`{key}` without a webhook");
        table.refuse(key, what, "add `webhook` or `webhook_file`");
    }
    // One that is there and wrong has been reported.
    if webhook.is_none() && table.raw("email").is_none_or(|found| found.is_empty_list()) {
        sink.report(
            name.span.clone(),
            format!("target `{}` leads nowhere", name.value),
            "add webhook = \"https://…\", webhook_file = \"NAME\" or email = [\"ops@example.org\"]",
        );
    }
    spec
}
