//! What cron takes as a schedule: less than a job may have, and some of it means something else there.

use farmhand_core::schedule::{MONTHS, WEEKDAYS};

use super::line::{Line, expression};
use super::state::State;
use crate::proposed::Imported;

/// The macros of Debian's, cronie's and FreeBSD's cron.
const MACROS: [&str; 10] = [
    "@reboot",
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
    "@every_minute",
    "@every_second",
];

/// Whether cron refuses a schedule that a job may have.
pub(super) fn is_refused(schedule: &str) -> bool {
    match schedule.starts_with('@') {
        true => !MACROS.contains(&schedule),
        false => !items(schedule).all(is_item),
    }
}

fn items(schedule: &str) -> impl Iterator<Item = &str> {
    expression(schedule).split([' ', ','])
}

/// `*`, a value or a range; a step only after `*` or a range.
fn is_item(item: &str) -> bool {
    // Cronie's random values, as they are written here.
    let item = item
        .strip_prefix("H(")
        .map_or(item.to_owned(), |item| item.replacen(')', "", 1));
    let item = item.as_str();
    let (range, step) = match item.split_once('/') {
        Some((range, _)) => (range, true),
        None => (item, false),
    };
    match range.split_once('-') {
        Some((first, last)) => value(first).is_some() && value(last).is_some(),
        None => range == "*" || !step && value(range).is_some(),
    }
}

/// The value of a number, or of the name of a weekday or month.
pub(super) fn value(text: &str) -> Option<usize> {
    let named = |names: &[&str]| names.iter().position(|name| name[..3].eq_ignore_ascii_case(text));
    match text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse().ok(),
        false => named(&WEEKDAYS).or_else(|| Some(named(&MONTHS)? + 1)),
    }
}

/// The first range whose end comes before its begin.
fn round(schedule: &str) -> Option<&str> {
    let goes_round = |item: &&str| {
        let range = item.split('/').next().unwrap_or(item);
        range
            .split_once('-')
            .is_some_and(|(first, last)| value(first) > value(last) && value(last).is_some())
    };
    items(schedule).find(goes_round)
}

impl Imported {
    /// The schedule as an expression here: macros that only some crons have are spelled out. None where cron refuses it.
    pub fn expression(&self) -> Option<&str> {
        let refused = is_refused(&self.schedule);
        (!refused).then(|| expression(&self.schedule))
    }
}

impl State<'_> {
    /// Where cron reads a schedule otherwise than a job does.
    pub(super) fn tell_schedule(&mut self, line: usize, schedule: &str) {
        if is_refused(schedule) {
            let text = format!("`{schedule}`: cron refuses this line, so it did not run; here it fires");
            self.note(line, text);
        }
        if schedule.contains('#') {
            let text = format!(
                "`{schedule}`: Debian's cron reads no further than the `#`, so the job is due on each such weekday, as there; newer versions \
                 of cronie refuse the line"
            );
            self.note(line, text);
        }
        if let Some(range) = round(schedule) {
            let text = format!(
                "`{range}` goes round: Debian's cron takes it and finds nothing in it; here the job is due on all of it. Newer versions of \
                 cronie read one that ends with Sunday"
            );
            self.note(line, text);
        }
    }

    /// One line decides for its whole file. Said of each file, also where other hosts' files are alike.
    pub(super) fn tell_ignored(&mut self) {
        let bad = |line: &Line| match line {
            Line::Invalid(_) => true,
            Line::Task(task) => is_refused(&task.schedule),
            Line::Blank | Line::Comment(_) | Line::Variable { .. } => false,
        };
        let lines = self.file.lines();
        if let Some(at) = lines.iter().position(bad) {
            let text = format!(
                "Debian's cron ignores all of a file for one line that it refuses: if it refuses line {}, none of this file's jobs ran \
                 there",
                at + 1
            );
            self.report.note(0, text);
        }
    }
}
