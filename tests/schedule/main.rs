//! The schedule decisions against published vectors, against brute force, and against themselves.

mod calendar;
mod crontab;
mod crontab_beside;
mod crontab_dialects;
mod crontab_hosts;
mod crontab_rules;
mod describe;
mod dst_vectors;
mod due;
mod grammar;
mod import_secrets;
mod kubernetes;
mod kubernetes_rules;
mod oracle;
mod systemd;
mod systemd_packages;
mod systemd_rules;
mod ten_years;
mod vectors;

use farmhand_core::definition::DstPolicy;
use farmhand_core::schedule::{ParseContext, Schedule, ScheduleError};
use jiff::Timestamp;

/// Parses one expression for a job called "test".
fn parse_in(expression: &str, timezone: &str, dst: DstPolicy) -> Result<Schedule, ScheduleError> {
    let context = ParseContext {
        job: "test",
        timezone,
        dst,
        ..ParseContext::default()
    };
    Schedule::parse(&[expression], &context)
}

fn utc(expression: &str) -> Schedule {
    parse_in(expression, "UTC", DstPolicy::Once).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn after(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
    schedule
        .iter_after(at(from))
        .take(count)
        .map(|t| t.to_string())
        .collect()
}
