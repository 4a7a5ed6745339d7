//! What history and a pinned snapshot cost those who claim:
//!
//!     cargo run --release -p farmhand-bench --bin bench-history -- [RUNS OF HISTORY [RUNS CLAIMED]]
//!
//! Claims and ends with an empty history and with a full one, the drop of what is too old, and the same beside a
//! transaction that stays open. Ten million runs of history take 6 GB in /tmp. `docs/lab/performance.md` says more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use farmhand_store::Db;
use farmhand_store::partitions::drop_older_than;
use farmhand_store::protocol::{claim, finish};
use farmhand_store::retention::Retention;
use farmhand_tests::bench::queue::{drain, end, make_jobs, make_runs, session};
use farmhand_tests::bench::{argument, durable, figure, times};
use farmhand_tests::pg::PrivateServer;

const CLAIMERS: usize = 4;
const SET: i64 = 100;
const JOBS: usize = 100;
/// Of each server.
const ROUNDS: usize = 7;
/// Due while a partition is dropped: more than can be claimed meanwhile.
const BESIDE: usize = 20_000;

#[tokio::main]
async fn main() {
    let (history, runs) = (argument(1, 200_000), argument(2, 20_000));
    let bare = PrivateServer::start(durable(&[])).await;
    let server = PrivateServer::start(durable(&[])).await;
    for each in [&bare, &server] {
        make_jobs(&each.db().await, JOBS).await;
        // The first finds caches cold.
        through(each, runs).await;
    }
    fill(&server, history).await;
    // Autovacuum would do it meanwhile, with the same two processors.
    let admin = server.admin().await;
    let vacuum = "VACUUM ANALYZE farmhand.run_history";
    admin.batch_execute(vacuum).await.expect(vacuum);
    let [empty, full] = in_turn([&bare, &server], runs).await;
    figure("history", "claimed and finished, empty history", empty, "runs/s");
    figure(
        "history",
        &format!("claimed and finished, {history} runs of history"),
        full,
        "runs/s",
    );
    figure(
        "history",
        "with the history, of without",
        full / empty * 100.0,
        "%",
    );
    drop(bare);
    retire(&server).await;
    pin(&server, runs).await;
}

/// Medians of two servers that are measured in turn, so that what else the machine does meets both.
async fn in_turn(servers: [&PrivateServer; 2], runs: usize) -> [f64; 2] {
    let mut rounds = [[0.0; ROUNDS]; 2];
    for round in 0..ROUNDS {
        for (of_one, server) in rounds.iter_mut().zip(servers) {
            of_one[round] = through(server, runs).await;
        }
    }
    println!("    rounds, without and with: {rounds:.0?}");
    rounds.map(|mut of_one| {
        of_one.sort_by(f64::total_cmp);
        of_one[ROUNDS / 2]
    })
}

async fn through(server: &PrivateServer, runs: usize) -> f64 {
    let sql = server.client().await;
    make_runs(&sql, runs, JOBS).await;
    let admin = server.admin().await;
    for clean in ["VACUUM ANALYZE farmhand.run_live", "CHECKPOINT"] {
        admin.batch_execute(clean).await.expect(clean);
    }
    drain(&server.config(), runs, CLAIMERS, SET).await.runs_per_second
}

/// Half of it this week's, where new ends go, and half a year old, in partitions as housekeeping makes them.
async fn fill(server: &PrivateServer, runs: usize) {
    let admin = server.admin().await;
    admin
        .batch_execute(
            "DO $$
             DECLARE week timestamptz := date_trunc('week', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '364 days';
             BEGIN
                 EXECUTE format('CREATE TABLE farmhand.run_history_old PARTITION OF farmhand.run_history
                     FOR VALUES FROM (%L) TO (%L)', week, week + interval '7 days');
             END $$;
             SELECT farmhand.ensure_partitions(1);
             -- Their ends were counted and told long ago. Triggers are not switched off and on: some of them are off.
             SET session_replication_role = replica",
        )
        .await
        .expect("partitions");
    let half = i32::try_from(runs / 2).expect("a number of runs");
    // Whole weeks apart, whatever day today is: else they miss the old partition, and are deleted one by one.
    for ended in ["now() - interval '364 days'", "now()"] {
        let insert = format!(
            "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state,
                 ended_by, running_at, session, attempt, fence, retries, takeovers, params, created_at, claimed_at,
                 started_at, finished_at, exit_code, first_due, last_due)
             SELECT nextval('farmhand.run_id_seq'), 'job' || i % {JOBS}, 1, 'scheduled', 0, 1, t, t, 'succeeded', 'holder',
                 'n1', 1, 1, i, 0, 0, '{{}}', t, t, t, t, 0, t, t
             FROM generate_series(1, $1::int) i, LATERAL (SELECT date_trunc('week', {ended}, 'UTC') + interval '1 day'
                 + i * interval '1 millisecond' AS t) x"
        );
        admin.execute(&insert, &[&half]).await.expect("history");
    }
    admin
        .batch_execute("ANALYZE farmhand.run_history")
        .await
        .expect("statistics");
    let default = "SELECT count(*) FROM (SELECT FROM farmhand.run_history_default LIMIT 1) d";
    let astray: i64 = admin.query_one(default, &[]).await.expect("a count").get(0);
    assert_eq!(
        astray, 0,
        "every run of the history lies in the partition of its week"
    );
    let size: i64 = admin
        .query_one("SELECT pg_database_size(current_database())", &[])
        .await
        .expect("a size")
        .get(0);
    println!("    the database has {} MiB", size >> 20);
}

/// Drops half of the history, while somebody claims and ends one run after the other: how long is the drop, and how long the
/// others' longest wait?
async fn retire(server: &PrivateServer) {
    let db = server.db().await;
    make_runs(&server.client().await, BESIDE, JOBS).await;
    let stop = Arc::new(AtomicBool::new(false));
    let beside = tokio::spawn(one_by_one(server.db().await, Arc::clone(&stop)));
    let began = Instant::now();
    let dropped = drop_older_than(&db, Retention::default())
        .await
        .expect("retention");
    assert!(
        dropped.iter().any(|name| name == "run_history_old"),
        "{dropped:?}"
    );
    let took = began.elapsed().as_secs_f64() * 1e3;
    figure("history", "retention: half of the history dropped in", took, "ms");
    stop.store(true, Ordering::Relaxed);
    let waits = beside.await.expect("who works beside it");
    drain(&server.config(), BESIDE - waits.len(), CLAIMERS, SET).await;
    times("history", "beside it, a claim and its end", waits);
}

/// Nanoseconds of each claim and end, until told to stop.
async fn one_by_one(db: Db, stop: Arc<AtomicBool>) -> Vec<u64> {
    let me = session(&db, "beside").await;
    let mut waits = Vec::new();
    while !stop.load(Ordering::Relaxed) && waits.len() < BESIDE {
        let began = Instant::now();
        let claimed = claim(&db, &me, 1, None).await.expect("a claim");
        let ends: Vec<_> = claimed.iter().map(|run| end(&me, run)).collect();
        assert_eq!(finish(&db, &ends).await.expect("an end").len(), 1);
        waits.push(u64::try_from(began.elapsed().as_nanos()).expect("a short time"));
    }
    waits
}

/// Somebody's transaction keeps every row version alive while runs come and go.
async fn pin(server: &PrivateServer, runs: usize) {
    let before = through(server, runs).await;
    let mut pinner = server.client().await;
    let pinned = pinner
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .start()
        .await
        .expect("a transaction");
    pinned
        .query("SELECT 1 FROM farmhand.node", &[])
        .await
        .expect("a snapshot");
    let mut last = before;
    for round in 1..=3 {
        last = through(server, runs).await;
        let name = format!("with a snapshot pinned for {} runs", round * runs);
        figure("history", &name, last, "runs/s");
    }
    figure(
        "history",
        "with the snapshot, of without",
        last / before * 100.0,
        "%",
    );
    pinned.rollback().await.expect("its end");
    through(server, runs).await;
    let after = through(server, runs).await;
    figure("history", "after its end", after, "runs/s");
}
