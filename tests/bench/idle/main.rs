//! What an agent at rest costs: statements, CPU, wake-ups, memory of agent, reaper and warden:
//!
//!     cargo run --release -p farmhand-bench --bin bench-idle -- [SECONDS]
//!
//! One agent with a hundred jobs that are not due. `docs/lab/performance.md` says more.

use std::time::Duration;

use farmhand_tests::bench::{argument, cpu_time, durable, figure, statements};
use farmhand_tests::farm::Farm;
use farmhand_tests::pg::PrivateServer;

/// The agent has done what it does after a start by then.
const AT_REST: Duration = Duration::from_secs(15);

/// A number of a line of a file in `/proc/PID`.
fn number(pid: i32, file: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// How often the threads of a process went to sleep by themselves: each is one wake-up.
fn wakes(pid: i32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .expect("a process")
        .flatten();
    threads
        .filter_map(|t| t.file_name().to_str().map(str::to_owned))
        .map(|t| number(pid, &format!("task/{t}/status"), "voluntary_ctxt_switches:"))
        .sum()
}

#[tokio::main]
async fn main() {
    let window = Duration::from_secs(argument(1, 60) as u64);
    let jobs: String = (0..100)
        .map(|n| format!("[job.j{n}]\nschedule = '0 0 1 1 *'\ncommand = ['true']\n"))
        .collect();
    let server = PrivateServer::start(durable(&[])).await;
    let farm = Farm::new()
        .on(server)
        .ttl(Duration::from_secs(30))
        .jobs(&jobs)
        .start()
        .await;
    let agent = &farm.agents[0];
    let run = {
        farm.apply("[job.once]\ncommand = ['true']\n");
        farm.submit("once").await
    };
    farm.succeeds(run).await;
    tokio::time::sleep(AT_REST).await;
    let mut processes = vec![("agent", agent.pid())];
    processes.extend(agent.reapers().iter().map(|p| ("reaper", p.pid)));
    processes.extend(agent.wardens().iter().map(|p| ("warden", p.pid)));
    let before = statements(agent).await;
    let usage = |p: &[(&'static str, i32)]| -> Vec<(f64, Duration)> {
        p.iter().map(|(_, pid)| (wakes(*pid), cpu_time(*pid))).collect()
    };
    let early = usage(&processes);
    tokio::time::sleep(window).await;
    let late = usage(&processes);
    let seconds = window.as_secs_f64();
    let said = statements(agent).await;
    let more = |op: &String| said[op] - before.get(op).copied().unwrap_or(0.0);
    let all: f64 = said.keys().map(more).sum();
    figure("idle", "statements per second", all / seconds, "1/s");
    for op in said.keys().filter(|op| more(op) > 0.0) {
        println!("    {op:<48} {:>12.2} 1/min", more(op) / seconds * 60.0);
    }
    for (i, (name, pid)) in processes.iter().enumerate() {
        let (woken, cpu) = (late[i].0 - early[i].0, late[i].1 - early[i].1);
        figure("idle", &format!("{name}: wake-ups"), woken / seconds, "1/s");
        figure(
            "idle",
            &format!("{name}: CPU"),
            cpu.as_secs_f64() / seconds * 100.0,
            "%",
        );
        for (what, file, line) in [
            ("resident", "status", "VmRSS:"),
            ("of that its share (Pss)", "smaps_rollup", "Pss:"),
            ("private and written to", "smaps_rollup", "Private_Dirty:"),
        ] {
            let mebibytes = number(*pid, file, line) / 1024.0;
            figure("idle", &format!("{name}: {what}"), mebibytes, "MiB");
        }
    }
}
