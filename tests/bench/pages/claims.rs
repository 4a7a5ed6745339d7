//! Claims and ends, with and without readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use farmhand_store::protocol::{Finish, NodeInfo, Opened, claim, finish, open};
use farmhand_store::{Db, LeaseIdentity};
use farmhand_tests::bench::queue::end;
use farmhand_tests::farm::Farm;
use farmhand_tests::pg::config;
use uuid::Uuid;

use super::client::Client;

/// Runs of one round, claimed and finished so many at a time.
const RUNS: usize = 3_000;
const AT_ONCE: i64 = 50;
const ROUNDS: usize = 5;
const READERS: usize = 4;
/// Of people who look: a page a second each.
const CALM: Duration = Duration::from_secs(1);

/// Prints the runs per second of each round and their medians.
pub async fn compare(farm: &Farm, client: &Client) {
    let db = Db::connect(&config(&farm.database.url()))
        .await
        .expect("a database");
    let me = session(&db).await;
    round(farm, &db, &me).await;
    let kinds = [
        ("no reader", None),
        ("4 readers, a page a second each", Some(CALM)),
        ("4 readers, as fast as they can", Some(Duration::ZERO)),
    ];
    let mut rates = vec![Vec::new(); kinds.len()];
    for _ in 0..ROUNDS {
        for (rates, (_, pause)) in rates.iter_mut().zip(kinds) {
            let readers = pause.map(|pause| Readers::start(client, pause));
            rates.push(round(farm, &db, &me).await);
            if let Some(readers) = readers {
                readers.stop().await;
            }
        }
    }
    println!("runs claimed and finished per second, sets of {AT_ONCE}, {RUNS} a round, in turns:");
    for (rates, (what, _)) in rates.iter().zip(kinds) {
        println!("  {what:<34} {:>8.0}   {}", median(rates), list(rates));
    }
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

async fn session(db: &Db) -> LeaseIdentity {
    let incarnation = Uuid::new_v4();
    let info = NodeInfo {
        address: "bench".to_owned(),
        name: "bench".to_owned(),
        incarnation,
        ttl: Duration::from_secs(3_600),
        slots: 50,
        labels: serde_json::json!({"role": "bench"}),
        version: "bench".to_owned(),
        last_session: 0,
        machine: None,
    };
    match open(db, &info).await.expect("a session") {
        Opened::Session(session) => LeaseIdentity {
            address: info.address,
            session,
            incarnation,
        },
        other => panic!("{other:?}"),
    }
}

/// Runs per second of one round.
async fn round(farm: &Farm, db: &Db, me: &LeaseIdentity) -> f64 {
    let made = format!(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, placement) \
         SELECT 'job-00008', 2, 'submitted', now(), now(), ARRAY['{{\"role\": \"bench\"}}'::jsonb] FROM generate_series(1, {RUNS})"
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

/// Each asks for one page after the other.
struct Readers {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Readers {
    fn start(client: &Client, pause: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..READERS).map(|_| {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let pages = [
                    "/api/v1/jobs",
                    "/api/v1/runs?node=node-0007",
                    "/api/v1/lanes",
                    "/api/v1/farm",
                ];
                for path in pages.iter().cycle() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    client.get(path).await;
                    tokio::time::sleep(pause).await;
                }
            })
        });
        Self {
            tasks: tasks.collect(),
            stop,
        }
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.abort();
        }
    }
}
