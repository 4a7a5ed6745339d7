//! Runs without processes: made due by SQL, then claimed and finished by the functions that agents use.

use crate::acting::anna;
use std::time::{Duration, Instant};

use crate::pg::Client;
use farmhand_core::definition::{Command, JobSpec};
use farmhand_core::run::RunState;
use farmhand_store::jobs::{ApplyOutcome, JobChange, apply};
use farmhand_store::protocol::{
    Claimed, Finish, FinishResult, Measured, NodeInfo, Opened, claim, finish, open,
};
use farmhand_store::{Db, DbConfig, LeaseIdentity};
use uuid::Uuid;

/// How a set of runs went through.
#[derive(Clone, Copy, Debug)]
pub struct Drained {
    pub runs_per_second: f64,
    /// Parts of the workers' time that went into waiting for either statement.
    pub claiming: f64,
    pub finishing: f64,
}

/// As many jobs that do nothing, `job0` and up.
///
/// # Panics
/// When the database refuses.
pub async fn make_jobs(db: &Db, jobs: usize) {
    let changes: Vec<JobChange> = (0..jobs).map(change).collect();
    match apply(&anna(db), &changes, false, "bench").await.expect("jobs") {
        ApplyOutcome::Done { .. } => {}
        other => panic!("{other:?}"),
    }
}

/// Due runs of the first `jobs` jobs, in turn.
///
/// # Panics
/// When the database refuses.
pub async fn make_runs(sql: &Client, runs: usize, jobs: usize) {
    sql.exec_with(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
         SELECT j.job_id, j.rev, 'submitted', now(), now()
         FROM generate_series(1, $1::int) i JOIN farmhand.job j ON j.job_id = 'job' || i % $2::int",
        &[
            &i32::try_from(runs).expect("a number of runs"),
            &i32::try_from(jobs).expect("a number of jobs"),
        ],
    )
    .await;
}

/// Everything that is due, by `claimers` sessions in sets of `set`.
///
/// # Panics
/// When a run is not finished exactly once.
pub async fn drain(config: &DbConfig, runs: usize, claimers: usize, set: i64) -> Drained {
    let mut nodes = Vec::new();
    for _ in 0..claimers {
        let db = Db::connect(config).await.expect("a migrated database");
        let me = session(&db, &Uuid::new_v4().to_string()).await;
        nodes.push((db, me));
    }
    let began = Instant::now();
    let workers: Vec<_> = nodes
        .into_iter()
        .map(|(db, me)| tokio::spawn(worker(db, me, set)))
        .collect();
    let (mut done, mut claiming, mut finishing) = (0, Duration::ZERO, Duration::ZERO);
    for worker in workers {
        let (n, c, f) = worker.await.expect("a worker");
        (done, claiming, finishing) = (done + n, claiming + c, finishing + f);
    }
    let took = began.elapsed().as_secs_f64();
    assert_eq!(done, runs, "every run is finished once");
    let part = |of: Duration| of.as_secs_f64() / took / claimers as f64;
    Drained {
        runs_per_second: runs as f64 / took,
        claiming: part(claiming),
        finishing: part(finishing),
    }
}

async fn worker(db: Db, me: LeaseIdentity, set: i64) -> (usize, Duration, Duration) {
    let (mut done, mut claiming, mut finishing) = (0, Duration::ZERO, Duration::ZERO);
    loop {
        let began = Instant::now();
        let claimed = claim(&db, &me, set, None).await.expect("a claim");
        claiming += began.elapsed();
        if claimed.is_empty() {
            return (done, claiming, finishing);
        }
        let ends: Vec<Finish> = claimed.iter().map(|run| end(&me, run)).collect();
        let began = Instant::now();
        let results = finish(&db, &ends).await.expect("an end");
        finishing += began.elapsed();
        done += results.iter().filter(|(_, r)| *r == FinishResult::Done).count();
    }
}

fn change(n: usize) -> JobChange {
    JobChange {
        job_id: format!("job{n}"),
        spec: JobSpec {
            command: Some(Command::Argv(vec!["true".to_owned()])),
            ..JobSpec::default()
        },
        next_run: None,
        source: "bench.toml".to_owned(),
    }
}

/// Opens a session under an address that is free.
///
/// # Panics
/// When it is not.
pub async fn session(db: &Db, address: &str) -> LeaseIdentity {
    let incarnation = Uuid::new_v4();
    let node = NodeInfo {
        address: address.to_owned(),
        name: address.to_owned(),
        incarnation,
        ttl: Duration::from_secs(30),
        slots: 8,
        labels: serde_json::json!({}),
        version: "bench".to_owned(),
        last_session: 0,
        machine: None,
    };
    match open(db, &node).await.expect("a session") {
        Opened::Session(session) => LeaseIdentity {
            address: address.to_owned(),
            session,
            incarnation,
        },
        other => panic!("{address}: {other:?}"),
    }
}

/// How a run ends that did nothing.
pub fn end(me: &LeaseIdentity, run: &Claimed) -> Finish {
    Finish {
        run_id: run.run_id,
        attempt: run.attempt,
        fence: run.fence,
        address: me.address.clone(),
        session: me.session,
        state: RunState::Succeeded,
        exit_code: Some(0),
        signal: None,
        reason: None,
        measured: Measured {
            started_at: Some(run.claimed_at),
            ran_ms: Some(1),
            cpu_ms: Some(1),
            max_rss_bytes: Some(1 << 20),
            output_bytes: Some(0),
            output_dropped: Some(0),
        },
        again: None,
    }
}
