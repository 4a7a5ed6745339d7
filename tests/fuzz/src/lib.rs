//! What Farmhand reads from others, each as a function of bytes that panics where it does not keep its word. Libfuzzer's
//! targets call these, and so does an ordinary test with what was found before (`tests/fuzz/main.rs`).

mod bounds;
mod cron;
mod crontab;
mod helper;
mod http;
mod input;
mod job_file;
pub mod mutate;
mod output;
mod record;
mod script_header;
pub mod seeds;
mod signature;
mod warden;

/// A target's name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 10] = [
    ("job_file", job_file::run),
    ("cron", cron::run),
    ("crontab", crontab::run),
    ("script_header", script_header::run),
    ("http", http::run),
    ("signature", signature::run),
    ("warden", warden::run),
    ("helper", helper::run),
    ("output", output::run),
    ("record", record::run),
];

/// Runs one input, and panics when it takes too long or too much memory, too.
pub fn bounded(target: &str, data: &[u8]) {
    let known = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, run) = known.unwrap_or_else(|| panic!("there is no target {target}"));
    bounds::within(|| run(data));
}
