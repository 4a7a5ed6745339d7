//! Runs without processes through PostgreSQL, claimed and finished durably with history, by the functions that agents
//! use; beside it the bare statements by pgbench, and other queues:
//!
//!     cargo run --release -p farmhand-bench --bin bench-queue -- [RUNS [CLAIMERS [SET]]]
//!
//! A PostgreSQL of its own with `fsync` and `synchronous_commit` as in production. `docs/lab/performance.md` says more.

mod bare;
mod peers;

use farmhand_tests::bench::queue::{drain, make_jobs, make_runs};
use farmhand_tests::bench::{argument, durable, figure};
use farmhand_tests::pg::PrivateServer;

#[tokio::main]
async fn main() {
    let (runs, claimers, set) = (argument(1, 40_000), argument(2, 4), argument(3, 500));
    let server = PrivateServer::start(durable(&[])).await;
    let admin = server.admin().await;
    for name in ["bare", "peers"] {
        let create = format!("CREATE DATABASE {name}");
        admin.batch_execute(&create).await.expect("a database");
    }
    for jobs in [1, 100] {
        farmhand(&server, runs, claimers, set, jobs).await;
    }
    farmhand(&server, runs / 40, claimers, 1, 100).await;
    if std::env::var_os("FARMHAND_BENCH_ALONE").is_none() {
        bare::measure(&server, runs, claimers).await;
        peers::measure(&server, runs).await;
    }
    if let Some(to) = std::env::var_os("FARMHAND_BENCH_LOG") {
        std::fs::copy(server.data().join("../log"), to).expect("the server's log");
    }
}

/// The runs of `jobs` jobs, all due, taken by `claimers` sessions in sets of `set`.
async fn farmhand(server: &PrivateServer, runs: usize, claimers: usize, set: usize, jobs: usize) {
    let (db, sql, admin) = (server.db().await, server.client().await, server.admin().await);
    make_jobs(&db, jobs).await;
    make_runs(&sql, runs, jobs).await;
    for clean in [
        "TRUNCATE farmhand.run_history",
        "VACUUM ANALYZE farmhand.run_live",
        "CHECKPOINT",
    ] {
        admin.batch_execute(clean).await.expect(clean);
    }
    let set = i64::try_from(set).expect("the size of a set");
    let drained = drain(&server.config(), runs, claimers, set).await;
    let history = "SELECT count(*) FROM farmhand.run_history WHERE state = 'succeeded'";
    let kept: i64 = sql.query_one(history, &[]).await.expect("a count").get(0);
    assert_eq!(usize::try_from(kept), Ok(runs), "each has one record");
    let name = format!("farmhand, {claimers} agents, sets of {set}, {jobs} jobs");
    figure("queue", &name, drained.runs_per_second, "runs/s");
    println!(
        "    of which waiting for claims {:.0} %, for finishes {:.0} %",
        drained.claiming * 100.0,
        drained.finishing * 100.0
    );
}
