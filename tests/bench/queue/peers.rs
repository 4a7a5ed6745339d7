//! Other queues on PostgreSQL, from their packages, pinned in `tests/bench/peers`. What is not installed is left out,
//! and said so.

use std::path::{Path, PathBuf};
use std::process::Command;

use farmhand_tests::bench::figure;
use farmhand_tests::pg::PrivateServer;
use serde_json::Value;

/// Name for people, program, arguments before the URL and the number of runs, and what part of the runs it is given:
/// slow ones would take minutes.
const PEERS: [(&str, &str, &[&str], usize); 4] = [
    (
        "graphile-worker, default",
        "node",
        &["graphile.mjs", "default"],
        8,
    ),
    ("graphile-worker, tuned", "node", &["graphile.mjs", "tuned"], 1),
    ("pg-boss, batches of 500", "node", &["pgboss.mjs"], 1),
    (
        "procrastinate, 10 at a time",
        "python3",
        &["procrastinate_bench.py"],
        16,
    ),
];

pub async fn measure(server: &PrivateServer, runs: usize) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let installed = target().join("bench-peers");
    if !installed.join("node_modules").exists() {
        println!("other queues: not installed; tests/bench/peers/install does that");
        return;
    }
    let url = server
        .tcp_url()
        .replace("/farmhand", "/peers")
        .replace("farm@", "postgres@");
    for (name, program, arguments, part) in PEERS {
        let program = match program {
            "python3" => installed.join("venv/bin/python3"),
            other => PathBuf::from(other),
        };
        let script = installed.join(arguments[0]);
        std::fs::copy(dir.join(arguments[0]), &script).expect("a copy beside its packages");
        let out = Command::new(program)
            .current_dir(&installed)
            .arg(&script)
            .args(&arguments[1..])
            .args([&url, &(runs / part).to_string()])
            .output()
            .expect("the peer's interpreter");
        let text = String::from_utf8_lossy(&out.stdout);
        let answer = text
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str::<Value>(line).ok());
        match answer
            .as_ref()
            .and_then(|a| Some((a["runs"].as_f64()?, a["seconds"].as_f64()?)))
        {
            Some((runs, seconds)) => figure("queue", name, runs / seconds, "runs/s"),
            None => println!("{name}: {}", String::from_utf8_lossy(&out.stderr)),
        }
    }
}

/// The target directory that this program lies in.
fn target() -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its own path");
    own.parent().expect("target/PROFILE/PROGRAM").to_path_buf()
}
