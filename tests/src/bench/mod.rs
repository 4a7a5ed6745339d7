//! What the programs that measure share: percentiles, CPU clocks, and one line of JSON per figure for the report.

pub mod queue;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use serde_json::json;

use crate::farm::Agent;

/// The value below which `part` (0 to 1) of the sorted values lie.
///
/// # Panics
/// When there are none.
pub fn percentile(sorted: &[u64], part: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// One figure: printed, and appended to the file that `FARMHAND_BENCH_JSON` names.
pub fn figure(bench: &str, name: &str, value: f64, unit: &str) {
    println!("{name:<52} {value:>12.2} {unit}");
    let Some(path) = std::env::var_os("FARMHAND_BENCH_JSON") else {
        return;
    };
    let line = json!({"bench": bench, "name": name, "value": value, "unit": unit});
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    writeln!(file.expect("the report's file"), "{line}").expect("the report's file");
}

/// Percentiles of times in nanoseconds, as figures in milliseconds.
pub fn times(bench: &str, name: &str, mut taken: Vec<u64>) {
    taken.sort_unstable();
    for (word, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0)] {
        figure(
            bench,
            &format!("{name}, {word}"),
            percentile(&taken, part) as f64 / 1e6,
            "ms",
        );
    }
}

/// User and system time of all threads of a process, in nanoseconds where `/proc/PID/stat` has hundredths.
///
/// # Panics
/// When there is no such process.
pub fn cpu_time(pid: i32) -> Duration {
    cpu_time_if_alive(pid).unwrap_or_else(|| panic!("the CPU clock of {pid}"))
}

/// As [`cpu_time`], of a process that may have ended meanwhile.
pub fn cpu_time_if_alive(pid: i32) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both write into plain data of our own.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) != 0 || libc::clock_gettime(clock, &raw mut time) != 0
    };
    if failed {
        return None;
    }
    let (seconds, nanoseconds) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    Some(Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds))
}

/// The statements that an agent has sent, by what they are for, as its metric counts them: each is a round trip.
///
/// # Panics
/// When it serves no metrics.
pub async fn statements(agent: &Agent) -> BTreeMap<String, f64> {
    let (_, page) = agent.get("/metrics").await.expect("the agent's metrics");
    let counts = page
        .lines()
        .filter_map(|line| line.strip_prefix("farmhand_db_query_duration_seconds_count{op=\""));
    counts
        .filter_map(|rest| rest.split_once("\"} "))
        .map(|(op, count)| (op.to_owned(), count.parse().expect("a count")))
        .collect()
}

/// A number of the command line, by its place after the program's name.
///
/// # Panics
/// When it is no number.
pub fn argument(place: usize, default: usize) -> usize {
    std::env::args()
        .nth(place)
        .map_or(default, |n| n.parse().expect("a number"))
}

/// A server as a small one in production: everything that makes a commit durable is on. `more` comes on top, and what
/// `FARMHAND_BENCH_SETTINGS` says (`name=value;name=value`), for a profile.
pub fn durable(more: &[(&str, &str)]) -> crate::pg::Options {
    let own = [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("autovacuum", "on"),
        ("shared_buffers", "512MB"),
        ("max_wal_size", "4GB"),
        ("checkpoint_timeout", "15min"),
    ];
    let given = std::env::var("FARMHAND_BENCH_SETTINGS").unwrap_or_default();
    let given = given.split(';').filter_map(|pair| pair.split_once('='));
    let all = own.into_iter().chain(more.iter().copied()).chain(given);
    crate::pg::Options {
        settings: all.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        ..crate::pg::Options::default()
    }
}
