//! `[calendar.NAME]`: days on which jobs that name it do not run, shared by all files read together.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeValue;

use super::twice::{Place, defined_twice};
use crate::document::{Found, Problem, Reader, Source, Wrong, closest};
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
            let exclude = reader.list("exclude", true, days);
            if exclude.is_none() && reader.key_span("exclude").is_none() {
                sink.report(
                    name.span.clone(),
                    format!("calendar `{}` excludes nothing", name.value),
                    "add exclude = [\"2026-12-24..2026-12-26\", \"2027-01-01\"]",
                );
            }
            reader.finish(&[
                ("excludes", "did you mean `exclude`?"),
                ("dates", "did you mean `exclude`?"),
            ]);
            self.0.entry(name.value.to_owned()).or_default().push(Calendar {
                exclude: exclude.into_iter().flatten().map(|found| found.value).collect(),
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

    /// The days that the named calendars exclude, each once, in order.
    ///
    /// # Errors
    /// A name that no file defines, and where it stands.
    pub fn resolve(&self, names: &[Found<String>]) -> Result<Vec<String>, (Range<usize>, Wrong)> {
        let mut days: Vec<String> = Vec::new();
        for name in names {
            let Some(found) = self.0.get(&name.value).and_then(|all| all.first()) else {
                let fix = match closest(&name.value, self.0.keys().map(String::as_str)) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => format!(
                        "define [calendar.{}] in one of the files that are applied together",
                        name.value
                    ),
                };
                let wrong = Wrong::new(format!("there is no calendar \"{}\"", name.value), fix);
                return Err((name.span.clone(), wrong));
            };
            days.extend(found.exclude.iter().cloned());
        }
        days.sort_unstable();
        days.dedup();
        Ok(days)
    }
}

/// One day or one range of days.
fn days(value: &DeValue<'_>) -> Result<String, Wrong> {
    let entry = value
        .as_str()
        .map(str::to_owned)
        .or_else(|| value.as_datetime().map(ToString::to_string))
        .ok_or_else(|| {
            Wrong::new(
                format!("expected a day, found a {}", value.type_str()),
                "for example \"2026-12-24\" or \"2026-12-24..2026-12-26\"",
            )
        })?;
    match CalendarDates::parse(&[&entry]) {
        Ok(_) => Ok(entry.split("..").map(str::trim).collect::<Vec<_>>().join("..")),
        Err(errors) => Err(errors
            .into_iter()
            .next()
            .map(|e| Wrong::new(format!("\"{entry}\" {}", e.problem), e.fix))
            .unwrap_or_else(|| Wrong::new("it is not a valid day", "write it as 2026-12-24"))),
    }
}
