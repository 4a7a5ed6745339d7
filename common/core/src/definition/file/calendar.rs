//! `[calendar.NAME]`: days on which jobs that name it do not run, or the only ones on which they do, shared by all files read together.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeValue;

use super::defined::{Place, defined_twice, unknown};
use super::from_table::stored;
use super::keys::CALENDAR;
use super::write::texts;
use crate::definition::spec::job::JobSpec;
use crate::document::{Found, Problem, Reader, Source};
use crate::schedule::CalendarDates;

/// The calendars of all files.
#[derive(Debug, Default)]
pub(super) struct Calendars(BTreeMap<String, Vec<Calendar>>);

#[derive(Debug)]
struct Calendar {
    exclude: Vec<String>,
    source: usize,
    span: Range<usize>,
}

impl Calendars {
    /// Reads the `[calendar]` table of one file.
    pub fn read(&mut self, source: usize, table: &Reader<'_>) {
        let sink = table.sink();
        for (name, value) in table.entries() {
            let Some(own) = value.value.as_table() else {
                sink.report(
                    value.span,
                    format!("calendar `{}`: expected a table", name.value),
                    "write [calendar.NAME] on a line of its own, and exclude = [\"2026-12-24..2026-12-26\"] below it",
                );
                continue;
            };
            let mut reader = Reader::new(vec![own], sink);
            let keys = stored(&mut reader, CALENDAR);
            if reader
                .key_span("exclude")
                .or(reader.key_span("include"))
                .is_none()
            {
                sink.report(
                    name.span.clone(),
                    format!("calendar `{}` excludes nothing", name.value),
                    "add exclude = [\"2026-12-24..2026-12-26\", \"2027-01-01\"]",
                );
            }
            let mut exclude: Vec<String> = texts(&keys, "exclude").map(str::to_owned).collect();
            let include: Vec<&str> = texts(&keys, "include").collect();
            let empty =
                |found: &Found<&DeValue<'_>>| found.value.as_array().is_some_and(|list| list.is_empty());
            if let Some(found) = reader.raw("include").filter(empty) {
                sink.report(
                    found.span,
                    "`include`: it is empty, so its jobs would never run",
                    "name the days on which they run, or leave it out",
                );
            }
            // What is wrong in it has been reported.
            if let (Ok(days), false) = (CalendarDates::parse(&include), include.is_empty()) {
                exclude.extend(days.others());
            }
            self.0.entry(name.value.to_owned()).or_default().push(Calendar {
                exclude,
                source,
                span: name.span,
            });
        }
    }

    /// Calendars that two files define.
    pub fn duplicates(&self, sources: &[Source]) -> Vec<Problem> {
        let places = self.0.iter().flat_map(|(name, all)| {
            all.iter().map(move |calendar| Place {
                name,
                source: calendar.source,
                span: &calendar.span,
            })
        });
        defined_twice("calendar", places, sources)
    }

    /// Reads the days that a job's calendars exclude, each once, in order, and reports those that no file defines.
    pub fn read_job(&self, job: &mut Reader<'_>, spec: &mut JobSpec) {
        for Found { value: name, span } in job.texts("calendars") {
            let Some(found) = self.0.get(name).and_then(|all| all.first()) else {
                let wrong = unknown("calendar", name, self.0.keys().map(String::as_str));
                job.sink().wrong(span, "calendars", wrong);
                continue;
            };
            spec.exclude.extend(found.exclude.iter().cloned());
        }
        spec.exclude.sort_unstable();
        spec.exclude.dedup();
    }
}
