//! From `farmhand.submit` to the first instruction of the command.
//!
//! `cargo build --release -p farmhand && FARMHAND_BIN=$PWD/target/release/farmhand cargo nextest run \
//! -p farmhand-tests --test bench --run-ignored only --no-capture -E 'test(submit)'`
//!
//! Two agents with free slots, one submit at a time in a transaction of its own, the next when the run before
//! has begun. The clock is CLOCK_BOOTTIME: read before the statement is sent, and by the command as the first
//! thing that its program does, before `main`.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use farmhand_tests::farm::Farm;
use farmhand_tests::witness::boot_ns;

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
    std::fs::write(&source, PROGRAM).unwrap();
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
        .map(|(run, at)| (run.parse().unwrap(), at.parse().unwrap()))
        .collect()
}

fn report(what: &str, mut taken: Vec<u64>) {
    taken.sort_unstable();
    let at = |part: f64| taken[((taken.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    println!(
        "{what}: {} runs, p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, least {:.2} ms, most {:.2} ms",
        taken.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.0),
        at(1.0)
    );
}

async fn measure(notify: &str, submits: usize) {
    let farm = Farm::new()
        .agents(2)
        .slots(4)
        .ttl(Duration::from_secs(30))
        .arguments(&["--notify", notify])
        .start()
        .await;
    let program = program(farm.dir());
    farm.apply(&format!("[job.begin]\ncommand = ['{program}', '@DIR@/begun']\n"));
    let file = farm.dir().join("begun");
    let submit = farm.sql.prepare("SELECT farmhand.submit('begin')").await.unwrap();
    let (mut from_call, mut from_reply) = (Vec::new(), Vec::new());
    for round in 0..submits + 10 {
        let before = boot_ns();
        let run: i64 = farm.sql.query_one(&submit, &[]).await.unwrap().get(0);
        let replied = boot_ns();
        let at = farm
            .eventually("the command begins", Duration::from_secs(20), async || {
                begun(&file).remove(&run).ok_or_else(String::new)
            })
            .await;
        std::fs::write(&file, "").unwrap();
        // The first ones find caches cold.
        if round >= 10 {
            from_call.push(at - before);
            from_reply.push(at.saturating_sub(replied));
        }
        // Its end is written down meanwhile: what is measured is a farm at rest.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    report(&format!("notify {notify}, from the call"), from_call);
    report(&format!("notify {notify}, from the commit's reply"), from_reply);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn submit_to_first_instruction_with_notify() {
    measure("on", 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn submit_to_first_instruction_without_notify() {
    measure("off", 100).await;
}
