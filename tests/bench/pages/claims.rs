//! Claims and ends, with and without readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use farmhand_common::store::protocol::{Claimed, Finish, NodeInfo, Opened, claim, finish, open};
use farmhand_common::store::{Db, Final, Me};
use farmhand_tests::farm::Farm;
use farmhand_tests::pg::config;
use jiff::Timestamp;
use uuid::Uuid;

use super::client::Client;

/// Runs of one round, claimed and finished so many at a time.
const RUNS: usize = 3_000;
const AT_ONCE: i64 = 50;
const ROUNDS: usize = 5;
const READERS: usize = 4;

/// Prints the runs per second of each round and their medians.
pub async fn compare(farm: &Farm, client: &Client) {
    let db = Db::connect(&config(&farm.database.url()))
        .await
        .expect("a database");
    let me = session(&db).await;
    round(farm, &db, &me).await;
    let (mut alone, mut beside, mut answers) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        alone.push(round(farm, &db, &me).await);
        let readers = Readers::start(client);
        beside.push(round(farm, &db, &me).await);
        answers += readers.stop().await;
    }
    println!("runs claimed and finished per second, sets of {AT_ONCE}, {RUNS} a round:");
    println!("  without readers {:>8.0}   {}", median(&alone), list(&alone));
    println!(
        "  with {READERS} readers  {:>8.0}   {}   ({answers} pages meanwhile)",
        median(&beside),
        list(&beside)
    );
}

fn median(rates: &[f64]) -> f64 {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn list(rates: &[f64]) -> String {
    let words: Vec<_> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    words.join(" ")
}

async fn session(db: &Db) -> Me {
    let life = Uuid::new_v4();
    let info = NodeInfo {
        address: "bench".to_owned(),
        name: "bench".to_owned(),
        life,
        ttl: Duration::from_secs(3_600),
        slots: 50,
        labels: serde_json::json!({"role": "bench"}),
        version: "bench".to_owned(),
    };
    match open(db, &info).await.expect("a session") {
        Opened::Session(session) => Me {
            address: info.address,
            session,
            life,
        },
        other => panic!("{other:?}"),
    }
}

/// Runs per second of one round.
async fn round(farm: &Farm, db: &Db, me: &Me) -> f64 {
    let made = format!(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, placement) \
         SELECT 'job-00008', 2, 'submitted', now(), now(), '{{\"role\": \"bench\"}}' FROM generate_series(1, {RUNS})"
    );
    farm.sql.batch_execute(&made).await.expect("runs that are due");
    let began = Instant::now();
    let mut done = 0;
    while done < RUNS {
        let claimed = claim(db, me, AT_ONCE, None).await.expect("a claim");
        let ends: Vec<Finish> = claimed.iter().map(|run| end(me, run)).collect();
        finish(db, &ends).await.expect("ends");
        done += ends.len();
    }
    done as f64 / began.elapsed().as_secs_f64()
}

fn end(me: &Me, run: &Claimed) -> Finish {
    Finish {
        run_id: run.run_id,
        attempt: run.attempt,
        fence: run.fence,
        address: me.address.clone(),
        session: me.session,
        state: Final::Succeeded,
        exit_code: Some(0),
        signal: None,
        reason: None,
        started_at: Some(Timestamp::now()),
        cpu_ms: Some(1),
        max_rss_bytes: Some(1 << 20),
        output_bytes: Some(0),
        output_dropped: Some(0),
        again: None,
    }
}

/// Each asks for one page after the other, as fast as a token may.
struct Readers {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Readers {
    fn start(client: &Client) -> Self {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let tasks = (0..READERS).map(|_| {
            let (client, stop, answers) = (client.clone(), Arc::clone(&stop), Arc::clone(&answers));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    for path in [
                        "/api/v1/jobs",
                        "/api/v1/runs?node=node-0007",
                        "/api/v1/lanes",
                        "/api/v1/farm",
                    ] {
                        client.get(path).await;
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        });
        Self {
            tasks: tasks.collect(),
            stop,
            answers,
        }
    }

    async fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            let _ = task.await;
        }
        self.answers.load(Ordering::Relaxed)
    }
}
