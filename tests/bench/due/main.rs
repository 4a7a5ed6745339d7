//! Lateness: from a due instant to the command's first instruction, for 1, 50 and 1,000 jobs due at once:
//!
//!     cargo run --release -p farmhand-bench --bin bench-due -- [ROUNDS [SECONDS]]
//!
//! Two agents with enough slots, jobs that fire every five seconds, a PostgreSQL with `fsync`. A command reads the
//! clock before its `main` and writes it down; the due instant is on the same clock, because the database is on the
//! same machine. Then the same with APScheduler and a pool of processes, while the farm has nothing due. At last 4,000 jobs
//! that are due every five seconds, for so many seconds.
//! `docs/lab/performance.md` says more.

mod steady;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use farmhand_tests::bench::{argument, durable, times};
use farmhand_tests::farm::Farm;
use farmhand_tests::pg::PrivateServer;
use jiff::Timestamp;

/// Appends `DUE NANOSECONDS`: its due instant as text, and when it began.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static struct timespec began;
__attribute__((constructor)) static void begin(void) { clock_gettime(CLOCK_REALTIME, &began); }
int main(int argc, char **argv) {
    char line[128];
    int n = snprintf(line, sizeof line, "%s %lld\n", getenv("FARMHAND_DUE"),
        began.tv_sec * 1000000000LL + began.tv_nsec);
    return write(open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0666), line, n) != n;
}
"#;

fn program(dir: &Path) -> String {
    let (source, program) = (dir.join("begin.c"), dir.join("begin"));
    std::fs::write(&source, PROGRAM).expect("a file can be made");
    let built = Command::new("cc")
        .args(["-O2", "-static", "-o"])
        .args([&program, &source])
        .status()
        .expect("a C compiler: apt-get install gcc libc6-dev");
    assert!(built.success());
    program.display().to_string()
}

#[tokio::main]
async fn main() {
    let rounds = argument(1, 3);
    for (jobs, rounds) in [(1, rounds * 2), (50, rounds), (1_000, 1)] {
        measure(jobs, rounds).await;
    }
    steady::measure(argument(2, 30)).await;
}

async fn measure(jobs: usize, rounds: usize) {
    let server = PrivateServer::start(durable(&[])).await;
    let farm = Farm::new()
        .agents(2)
        .slots(256)
        .ttl(Duration::from_secs(30))
        .env("FARMHAND_LOG", "warn")
        .on(server)
        .start()
        .await;
    let program = program(farm.dir());
    // A thousand take longer than five seconds with what is around them.
    let every = if jobs > 100 { 30 } else { 5 };
    let text: String = (0..jobs)
        .map(|n| {
            format!("[job.j{n}]\nschedule = '*/{every} * * * * *'\ncommand = ['{program}', '@DIR@/begun']\n")
        })
        .collect();
    farm.apply(&text);
    let file = farm.dir().join("begun");
    // The first round finds caches cold, and does not count.
    let wanted = jobs * (rounds + 1);
    farm.eventually("every round ran", Duration::from_secs(300), async || {
        let lines = std::fs::read_to_string(&file).unwrap_or_default().lines().count();
        if lines >= wanted {
            Ok(())
        } else {
            Err(format!("{lines} of {wanted}"))
        }
    })
    .await;
    times(
        "due",
        &format!("{jobs} due at once, first instruction"),
        lateness(&file, jobs * rounds),
    );
    farm.apply(&text.replace("command", "enabled = false\ncommand"));
    if let Some(file) = apscheduler(&program, farm.dir(), [jobs, rounds, every]) {
        times(
            "due",
            &format!("peer APScheduler, {jobs} due at once, first instruction"),
            lateness(&file, jobs * rounds),
        );
    }
}

/// Nanoseconds from due to begun, of all rounds but the first.
fn lateness(file: &Path, wanted: usize) -> Vec<u64> {
    let text = std::fs::read_to_string(file).expect("what began");
    let mut late: Vec<(Timestamp, u64)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(due, at)| {
            let due: Timestamp = due.parse().expect("an instant");
            let at: i128 = at.parse().expect("a time");
            let after = at - due.as_nanosecond();
            (due, u64::try_from(after).unwrap_or(0))
        })
        .collect();
    late.sort_unstable();
    let first = late[0].0;
    let counted = late
        .into_iter()
        .filter(|(due, _)| *due > first)
        .map(|(_, after)| after);
    counted.take(wanted).collect()
}

/// The same by APScheduler with a pool of processes; its jobs lie in memory. `None` where it is not installed.
///
/// # Panics
/// When it fails.
fn apscheduler(program: &str, dir: &Path, jobs_rounds_every: [usize; 3]) -> Option<PathBuf> {
    let here = std::env::current_exe().expect("this program");
    let python = here.with_file_name("bench-peers").join("venv/bin/python3");
    if !python.exists() {
        println!("APScheduler is not installed and is left out; tests/bench/peers/install does that");
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/apscheduler_bench.py");
    let file = dir.join("begun-by-peer");
    let status = Command::new(python)
        .arg(script)
        .args([program.as_ref(), file.as_os_str()])
        .args(jobs_rounds_every.map(|n| n.to_string()))
        .status()
        .expect("the peer's interpreter");
    assert!(status.success(), "APScheduler: {status}");
    Some(file)
}
