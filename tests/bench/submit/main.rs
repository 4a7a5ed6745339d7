//! From `farmhand.submit` to the first instruction of the command, with NOTIFY on and off:
//!
//!     cargo run --release -p farmhand-bench --bin bench-submit -- [SUBMITS [SUBMITS WITHOUT NOTIFY]]
//!
//! Two agents with free slots, one submit at a time in a transaction of its own, the next when the run before has
//! been recorded as succeeded. The clock is CLOCK_BOOTTIME: read before the statement is sent, and by the command
//! as the first thing that its program does, before `main`. `tests/bench/README.md` says more.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use farmhand_tests::bench::durable;
use farmhand_tests::farm::Farm;
use farmhand_tests::pg::PrivateServer;
use farmhand_tests::witness::boot_ns;

/// The first ones find caches cold, and do not count.
const WARM_UP: usize = 10;

/// Appends `RUN NANOSECONDS` to the file that it is given, from a constructor that runs before `main`.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static struct timespec began;
__attribute__((constructor)) static void begin(void) { clock_gettime(CLOCK_BOOTTIME, &began); }
int main(int argc, char **argv) {
    char line[64];
    int n = snprintf(line, sizeof line, "%s %lld\n", getenv("FARMHAND_RUN"),
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

fn begun(file: &Path) -> HashMap<i64, u64> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(run, at)| (run.parse().expect("a run"), at.parse().expect("a time")))
        .collect()
}

fn report(what: &str, mut taken: Vec<u64>) {
    farmhand_tests::bench::times("submit", what, taken.clone());
    taken.sort_unstable();
    let at = |part: f64| taken[((taken.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    println!(
        "{what:<36} {:>6} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
        taken.len(),
        at(0.0),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}

async fn measure(notify: &str, submits: usize) {
    let server = PrivateServer::start(durable(&[])).await;
    let farm = Farm::new()
        .on(server)
        .agents(2)
        .slots(4)
        .ttl(Duration::from_secs(30))
        .arguments(&["--notify", notify])
        .start()
        .await;
    let program = program(farm.dir());
    farm.apply(&format!("[job.begin]\ncommand = ['{program}', '@DIR@/begun']\n"));
    let file = farm.dir().join("begun");
    let submit = farm.sql.prepare("SELECT farmhand.submit('begin')").await;
    let submit = submit.expect("a statement");
    let (mut from_call, mut from_reply) = (Vec::new(), Vec::new());
    for round in 0..submits + WARM_UP {
        let before = boot_ns();
        let row = farm.sql.query_one(&submit, &[]).await.expect("a run");
        let replied = boot_ns();
        let run: i64 = row.get(0);
        // Its end is on record before the next: what is measured is a farm at rest.
        farm.succeeds(run).await;
        let at = begun(&file).remove(&run).expect("it began before it ended");
        if round >= WARM_UP {
            from_call.push(at - before);
            from_reply.push(at.saturating_sub(replied));
        }
    }
    report(&format!("notify {notify}, from the call"), from_call);
    report(&format!("notify {notify}, from the commit's reply"), from_reply);
}

#[tokio::main]
async fn main() {
    let mut counts = std::env::args()
        .skip(1)
        .map(|n| n.parse::<usize>().expect("a number of submits"));
    let submits = counts.next().unwrap_or(1_000);
    let without = counts.next().unwrap_or(submits.min(100));
    println!("farmhand: {}", farmhand_tests::bin::farmhand().display());
    println!(
        "{:<36} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "milliseconds", "runs", "least", "p50", "p90", "p99", "most"
    );
    measure("on", submits).await;
    measure("off", without).await;
}
