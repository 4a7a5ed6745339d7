//! Memory of the engine for each task that waits.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::graphs::{Body, Graph};
use super::measure::is_asleep;
use super::runners::Place;

/// All but one of the tasks wait while that one sleeps.
pub fn table(tasks: usize) {
    println!("\nmemory of the engine while tasks wait");
    println!(
        "{:<28} {:>12} {:>14}",
        "tasks waiting", "anonymous KB", "bytes per task"
    );
    let few = tasks / 100;
    let base = anonymous(few);
    println!("{few:<28} {:>12}", base / 1024);
    let all = anonymous(tasks);
    let per_task = all.saturating_sub(base) / (tasks - few) as u64;
    println!("{tasks:<28} {:>12} {per_task:>14}", all / 1024);
}

/// Bytes.
fn anonymous(tasks: usize) -> u64 {
    let mut graph = Graph::fan("memory", tasks, Body::Nothing);
    graph.body = Body::Sleep(Duration::from_secs(600));
    let place = Place::new(&graph);
    let run_dir = place.path("run");
    let mut child = Command::new(farmhand_tests::bin::farmhand())
        .args(["flow", "run", "--quiet", "--grace", "100ms", "--run-dir"])
        .arg(&run_dir)
        .arg(place.path("scripts"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("farmhand runs");
    let end = Instant::now() + Duration::from_secs(30);
    while !run_dir.join("log/t0.log").exists() || !is_asleep(Path::new("/proc").join(child.id().to_string()))
    {
        assert!(Instant::now() < end, "the first task does not start");
        std::thread::yield_now();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    let _ = child.wait();
    kilobytes.expect("RssAnon is in /proc/PID/status") * 1024
}
