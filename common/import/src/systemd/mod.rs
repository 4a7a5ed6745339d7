//! systemd's timers with their services, and the job files that say the same.
//!
//! Pure: the texts come in, a job file and a report come out. The rules are those of systemd.timer(5), systemd.time(7),
//! systemd.exec(5) and systemd.service(5).

mod calendar;
mod convert;
mod exec;
mod fields;
mod file;
mod service;
mod span;
mod specifiers;
#[cfg(test)]
mod tests;
mod unit;

pub use calendar::{Calendar, on_calendar};
pub use convert::import;
pub use file::{File, Timer, service_of};
