//! What a continuous job costs that always fails, once it is backed off:
//!
//!     cargo run --release -p farmhand-bench --bin bench-crash -- [SECONDS]
//!
//! One agent at rest, and the same agent with such a job, each for a minute unless told otherwise. The job has the
//! default `retry`, which ends at a round every 150 to 300 s; the measured time has one whole round in it, so that
//! the difference is what a round costs, and what that is per minute at the shortest pause. CPU is that of agent,
//! reaper and warden, by their CPU clocks; statements are what the agent itself counts. `tests/bench/README.md` says more.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_tests::bench::statements;
use farmhand_tests::farm::{Agent, Farm};

/// So many failures in a row are far beyond the first at the cap.
const FAILURES: i32 = 20;
/// The agent has done what it does after a start, and after a change, by then.
const AT_REST: Duration = Duration::from_secs(10);

/// Half of the default cap: between two rounds of a backed-off job at the least. Seconds.
const SHORTEST_PAUSE: f64 = 150.0;

struct Used {
    cpu: Duration,
    /// By operation.
    statements: BTreeMap<String, f64>,
    rounds: f64,
}

impl Used {
    fn all_statements(&self) -> f64 {
        self.statements.values().sum()
    }
}

async fn used(agent: &Agent) -> Used {
    let rounds = agent
        .metric("farmhand_runs_started_total", &["kind=\"continuous\""])
        .await;
    let helpers = agent.reapers().into_iter().chain(agent.wardens());
    let pids = helpers.map(|p| p.pid).chain([agent.pid()]);
    Used {
        cpu: pids.map(cpu_time).sum(),
        statements: statements(agent).await,
        rounds,
    }
}

/// User and system time of all threads of a process, in nanoseconds where `/proc/PID/stat` has hundredths.
fn cpu_time(pid: i32) -> Duration {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both write into plain data of our own.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) != 0 || libc::clock_gettime(clock, &raw mut time) != 0
    };
    assert!(!failed, "the CPU clock of {pid}");
    let (seconds, nanoseconds) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}

async fn over(agent: &Agent, window: Duration) -> Used {
    let before = used(agent).await;
    tokio::time::sleep(window).await;
    let mut after = used(agent).await;
    for (op, count) in &before.statements {
        *after.statements.entry(op.clone()).or_default() -= count;
    }
    Used {
        cpu: after.cpu - before.cpu,
        statements: after.statements,
        rounds: after.rounds - before.rounds,
    }
}

#[tokio::main]
async fn main() {
    let seconds = std::env::args()
        .nth(1)
        .map(|n| n.parse().expect("a number of seconds"));
    let window = Duration::from_secs(seconds.unwrap_or(60));
    println!("farmhand: {}", farmhand_tests::bin::farmhand().display());
    let farm = Farm::new().ttl(Duration::from_secs(30)).start().await;
    let agent = &farm.agents[0];
    tokio::time::sleep(AT_REST).await;
    let rest = over(agent, window).await;
    farm.apply("[job.crash]\nschedule = '@continuous'\ncommand = ['false']\n");
    farm.eventually("the first round fails", Duration::from_secs(20), async || {
        let failed = farm
            .value::<i64>("SELECT count(*) FROM farmhand.run_history")
            .await;
        if failed > 0 { Ok(()) } else { Err(String::new()) }
    })
    .await;
    let backed_off =
        "UPDATE farmhand.run_live SET retries = $1, ready_at = now() + make_interval(secs => $2)";
    let next = (AT_REST + window / 4).as_secs_f64();
    farm.sql
        .execute(backed_off, &[&FAILURES, &next])
        .await
        .expect("the round that waits");
    tokio::time::sleep(AT_REST).await;
    let with = over(agent, window).await;
    let minutes = window.as_secs_f64() / 60.0;
    println!("{:<14} {:>10} {:>12} {:>8}", "", "CPU %", "stmts/min", "rounds");
    let percent = |cpu: Duration| cpu.as_secs_f64() / window.as_secs_f64() * 100.0;
    for (name, used) in [("at rest", &rest), ("with the job", &with)] {
        println!(
            "{name:<14} {:>10.4} {:>12.1} {:>8}",
            percent(used.cpu),
            used.all_statements() / minutes,
            used.rounds
        );
    }
    assert!(with.rounds >= 1.0, "no round in the measured time");
    let differs = |(op, count): (&String, &f64)| {
        let more = count - rest.statements.get(op).unwrap_or(&0.0);
        (more != 0.0).then(|| format!("{op} {more:+}"))
    };
    let differences: Vec<String> = with.statements.iter().filter_map(differs).collect();
    println!(
        "statements in {window:?} by operation: {}",
        differences.join(", ")
    );
    let statements = (with.all_statements() - rest.all_statements()) / with.rounds;
    let cpu = (with.cpu.as_secs_f64() - rest.cpu.as_secs_f64()) / with.rounds;
    println!(
        "a round: {statements:.1} statements, {:.2} ms of CPU; every {SHORTEST_PAUSE} s at the most: {:.2} statements a \
         minute, {:.4} % CPU",
        cpu * 1e3,
        statements * 60.0 / SHORTEST_PAUSE,
        cpu / SHORTEST_PAUSE * 100.0
    );
}
