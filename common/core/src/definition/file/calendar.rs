//! `[calendar.NAME]`: days on which jobs that name it do not run, or the only ones on which they do, shared by all files read together.

use super::defined::{Defined, unknown};
use super::from_table::stored;
use super::keys::CALENDAR;
use super::write::texts;
use crate::definition::spec::job::JobSpec;
use crate::document::{Reader, Spanned};
use crate::schedule::CalendarDates;

/// The days that each calendar of all files excludes.
pub(super) type Calendars = Defined<Vec<String>>;

impl Calendars {
    /// Reads the `[calendar]` table of one file.
    pub fn read(&mut self, source: usize, table: &Reader<'_>) {
        let example = "exclude = [\"2026-12-24..2026-12-26\"";
        let fix = format!("write [calendar.NAME] on a line of its own, and {example}] below it");
        self.read_tables(("calendar", &fix), source, table, |mut reader, name| {
            let keys = stored(&mut reader, CALENDAR);
            if (reader.key_span("exclude").or(reader.key_span("include"))).is_none() {
                let what = format!("calendar `{}` excludes nothing", name.value);
                let fix = format!("add {example}, \"2027-01-01\"]");
                reader.sink().report(name.span.clone(), what, fix);
            }
            if let Some(found) = reader.raw("include").filter(Spanned::is_empty_list) {
                reader.sink().report(
                    found.span,
                    "`include`: it is empty, so its jobs would never run",
                    "name the days on which they run, or leave it out",
                );
            }
            let mut exclude: Vec<String> = texts(&keys, "exclude").map(str::to_owned).collect();
            let include: Vec<&str> = texts(&keys, "include").collect();
            // What is wrong in it has been reported.
            if let (Ok(days), false) = (CalendarDates::parse(&include), include.is_empty()) {
                exclude.extend(days.others());
            }
            exclude
        });
    }

    /// Reads the days that a job's calendars exclude, each once, in order, and reports those that no file defines.
    pub fn read_job(&self, job: &mut Reader<'_>, spec: &mut JobSpec) {
        for Spanned { value: name, span } in job.texts("calendars") {
            let Some(found) = self.get(name) else {
                let wrong = unknown("calendar", name, self.names());
                job.sink().wrong(span, "calendars", wrong);
                continue;
            };
            spec.exclude.extend(found.iter().cloned());
        }
        spec.exclude.sort_unstable();
        spec.exclude.dedup();
    }
}
