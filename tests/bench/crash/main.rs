//! What a continuous job costs that always fails, once it is backed off:
//!
//!     cargo run --release -p farmhand-tests --bin bench-crash -- [SECONDS]
//!
//! One agent at rest, and the same agent with such a job, each for a minute unless told otherwise. The job has the
//! default `retry`, which ends at a round every 150 to 300 s; the measured time has one whole round in it, so that
//! the difference is what a round costs. CPU is that of agent, guard and warden, by their CPU clocks; statements
//! are what the agent itself counts. `docs/measuring.md` says more.

use std::time::Duration;

use farmhand_tests::farm::{Agent, Farm};

/// So many failures in a row are far beyond the first at the cap.
const FAILURES: i32 = 20;
/// The agent has done what it does after a start, and after a change, by then.
const AT_REST: Duration = Duration::from_secs(10);

struct Used {
    cpu: Duration,
    statements: f64,
    rounds: f64,
}

async fn used(agent: &Agent) -> Used {
    let statements = agent
        .metric("farmhand_db_query_duration_seconds_count", &[])
        .await;
    let rounds = agent
        .metric("farmhand_runs_started_total", &["kind=\"continuous\""])
        .await;
    let helpers = agent.guards().into_iter().chain(agent.wardens());
    let pids = helpers.map(|p| p.pid).chain([agent.pid()]);
    Used {
        cpu: pids.map(cpu_time).sum(),
        statements,
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
    let after = used(agent).await;
    Used {
        cpu: after.cpu - before.cpu,
        statements: after.statements - before.statements,
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
            used.statements / minutes,
            used.rounds
        );
    }
    println!(
        "{:<14} {:>10.4} {:>12.1} {:>8}",
        "difference",
        percent(with.cpu) - percent(rest.cpu),
        (with.statements - rest.statements) / minutes,
        with.rounds
    );
    assert!(with.rounds >= 1.0, "no round in the measured time");
}
