//! Real processes per second: `/bin/true`, claimed, executed under the warden with its output captured, recorded
//! durably, by one agent; before it a bare loop of posix_spawn with eight in flight, and what else runs commands in
//! parallel on one machine and keeps nothing:
//!
//!     cargo run --release -p farmhand-bench --bin bench-spawn -- [RUNS [SLOTS]]
//!
//! With 8 slots and with 64, unless told. A figure says where the state directory is, since that is half of it:
//! `FARMHAND_BENCH_DIR` chooses.
//!
//! `docs/lab/performance.md` says more.

mod peers;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use farmhand_tests::bench::{argument, cpu_time, durable, figure};
use farmhand_tests::farm::Farm;
use farmhand_tests::pg::PrivateServer;

const IN_FLIGHT: usize = 8;

/// Spawns and reaps; nothing is recorded anywhere.
fn bare(runs: usize) -> f64 {
    let program = c"/bin/true";
    let argv = [program.as_ptr().cast_mut(), std::ptr::null_mut()];
    let environment = [std::ptr::null_mut()];
    let began = Instant::now();
    let (mut started, mut running) = (0, 0);
    while started < runs || running > 0 {
        while started < runs && running < IN_FLIGHT {
            let mut pid = 0;
            // SAFETY: program, arguments and environment outlive the call; no attributes are given.
            let failed = unsafe {
                libc::posix_spawn(
                    &raw mut pid,
                    program.as_ptr(),
                    std::ptr::null(),
                    std::ptr::null(),
                    argv.as_ptr(),
                    environment.as_ptr(),
                )
            };
            assert_eq!(failed, 0, "posix_spawn");
            (started, running) = (started + 1, running + 1);
        }
        let mut status = 0;
        // SAFETY: waits for children of this process, which has no others.
        assert!(unsafe { libc::waitpid(-1, &raw mut status, 0) } > 0, "waitpid");
        running -= 1;
    }
    runs as f64 / began.elapsed().as_secs_f64()
}

fn main() {
    let (runs, slots) = (argument(1, 3_000), argument(2, 0));
    // Before the server is a child of this process.
    figure(
        "spawn",
        "bare posix_spawn loop, 8 in flight",
        bare(runs),
        "runs/s",
    );
    peers::measure(runs, IN_FLIGHT);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let each: &[usize] = if slots == 0 { &[8, 64] } else { &[slots] };
    for slots in each {
        runtime.block_on(measure(runs, *slots));
    }
}

fn place(dir: &Path) -> &'static str {
    let path = std::ffi::CString::new(dir.as_os_str().as_bytes()).expect("a path");
    // SAFETY: statfs is plain data; path and result outlive the call.
    let (failed, found) = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        (libc::statfs(path.as_ptr(), &raw mut found), found)
    };
    if failed == 0 && found.f_type == libc::TMPFS_MAGIC {
        "tmpfs"
    } else {
        "disk"
    }
}

async fn measure(runs: usize, slots: usize) {
    let server = PrivateServer::start(durable(&[])).await;
    let farm = Farm::new()
        .slots(u32::try_from(slots).expect("some slots"))
        .ttl(Duration::from_secs(30))
        .env("FARMHAND_LOG", "warn")
        .on(server)
        .start()
        .await;
    let place = place(farm.dir());
    farm.apply("[job.true]\ncommand = ['/bin/true']\n[job.print]\ncommand = ['/bin/echo', 'hello']\n");
    for job in ["true", "print"] {
        // The first hundred find caches cold.
        for n in [100, runs] {
            let took = through(&farm, job, n).await;
            if n == runs {
                figure(
                    "spawn",
                    &format!("farmhand, one agent, {slots} slots, /bin/{job}, {place}"),
                    n as f64 / took,
                    "runs/s",
                );
            }
        }
    }
    let agent = &farm.agents[0];
    let before = used(agent);
    let took = through(&farm, "true", runs).await;
    let after = used(agent);
    for ((who, before), (_, after)) in before.iter().zip(&after) {
        let each = (*after - *before).as_secs_f64() / runs as f64 * 1e6;
        figure(
            "spawn",
            &format!("CPU of {who} per run, {slots} slots, {place}"),
            each,
            "µs",
        );
    }
    println!("    in {took:.2} s");
}

/// CPU time of the agent and of its warden, without commands.
fn used(agent: &farmhand_tests::farm::Agent) -> Vec<(&'static str, Duration)> {
    let warden = agent.wardens().first().map(|p| cpu_time(p.pid));
    vec![
        ("the agent", cpu_time(agent.pid())),
        ("the warden", warden.unwrap_or_default()),
    ]
}

/// Seconds from the commit that makes the runs due to the last end on record.
async fn through(farm: &Farm, job: &str, runs: usize) -> f64 {
    let done = "SELECT count(*) FROM farmhand.run_history WHERE state = 'succeeded'";
    let before = farm.value::<i64>(done).await;
    // Counting a history of thousands takes as long as some runs.
    let live = "SELECT EXISTS (SELECT FROM farmhand.run_live)";
    let began = Instant::now();
    farm.sql
        .execute(
            "WITH made AS (
                 INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
                 SELECT j.job_id, j.rev, 'submitted', now(), now()
                 FROM generate_series(1, $2::int) i JOIN farmhand.job j ON j.job_id = $1 RETURNING run_id)
             SELECT pg_notify('farmhand', json_build_object('due', min(run_id), 'job', $1::text, 'runs', 1)::text)
             FROM made",
            &[&job, &i32::try_from(runs).expect("a number of runs")],
        )
        .await
        .expect("runs");
    let deadline = began + Duration::from_secs(300);
    while farm.value::<bool>(live).await {
        assert!(Instant::now() < deadline, "not all of {runs} ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = began.elapsed().as_secs_f64();
    assert_eq!(
        farm.value::<i64>(done).await - before,
        runs as i64,
        "each succeeded"
    );
    took
}
