//! 4,000 jobs every five seconds, spread over them, on two agents: whether each instant's run ends, and how late they begin.

use std::fmt::Write;
use std::time::Duration;

use farmhand_tests::bench::{durable, figure};
use farmhand_tests::farm::Farm;
use farmhand_tests::pg::PrivateServer;
use jiff::Timestamp;

const NAME: &str = "4,000 jobs every 5 s";
const JOBS: i64 = 4_000;
const EVERY: i64 = 5;
/// Before it counts: caches are cold, and agents have just learnt of the jobs.
const WARM_UP: i64 = 10;

pub async fn measure(seconds: usize) {
    let server = PrivateServer::start(durable(&[])).await;
    let farm = Farm::new()
        .agents(2)
        .slots(64)
        .ttl(Duration::from_secs(30))
        .env("FARMHAND_LOG", "warn")
        .on(server)
        .start()
        .await;
    let mut text = String::new();
    for n in 0..JOBS {
        write!(
            text,
            "[job.j{n}]\nschedule = '@every {EVERY}s'\nspread = '{EVERY}s'\ncommand = ['/bin/true']\n"
        )
        .expect("a string");
    }
    farm.apply(&text);
    // Whole turns of all jobs, of instants that are still to come.
    let seconds = i64::try_from(seconds).expect("some seconds") / EVERY * EVERY;
    let from = (Timestamp::now().as_second() / EVERY + 1) * EVERY + WARM_UP;
    let to = from + seconds;
    // The last ones have the time that a run may take.
    let rest = u64::try_from(to - Timestamp::now().as_second() + 10).expect("a time to come");
    tokio::time::sleep(Duration::from_secs(rest)).await;
    let row = farm
        .sql
        .query_one(
            "SELECT count(*), percentile_cont(ARRAY[0.5, 0.99, 1.0])
                 WITHIN GROUP (ORDER BY (extract(epoch FROM started_at - ready_at) * 1000)::float8)
             FROM farmhand.run_history
             WHERE state = 'succeeded' AND due_at >= to_timestamp($1::bigint) AND due_at < to_timestamp($2::bigint)",
            &[&from, &to],
        )
        .await
        .expect("what ran");
    let (ended, late): (i64, Option<Vec<f64>>) = (row.get(0), row.get(1));
    let missing = JOBS * seconds / EVERY - ended;
    figure(
        "due",
        &format!("{NAME}, instants without an end"),
        missing as f64,
        "runs",
    );
    for (word, late) in ["p50", "p99", "most"].iter().zip(late.unwrap_or_default()) {
        figure("due", &format!("{NAME}, lateness, {word}"), late, "ms");
    }
}
