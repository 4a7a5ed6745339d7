//! A farm with a past: so many finished runs over the partitions of eight weeks, jobs, nodes, attempts, events, output.
//!
//! It is made with SQL alone, in the shape that the protocol leaves, with the triggers of the history off: what they
//! would count is put there as well.

use std::time::Instant;

use crate::pg::Client;

/// How large.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub runs: i64,
    pub jobs: i64,
    pub nodes: i64,
    pub events: i64,
}

impl Size {
    /// Enough to tell an index from a scan, in seconds.
    pub const SMALL: Self = Self {
        runs: 50_000,
        jobs: 1_000,
        nodes: 20,
        events: 30_000,
    };
    /// What the pages are built for.
    pub const FULL: Self = Self {
        runs: 1_000_000,
        jobs: 10_000,
        nodes: 200,
        events: 300_000,
    };
}

/// Runs of one statement.
const PART: i64 = 100_000;

/// Fills a migrated database that has nothing in it. No job is due within a day.
pub async fn seed(sql: &Client, size: Size) {
    let began = Instant::now();
    partitions(sql).await;
    let numbers = [
        ("JOBS", size.jobs),
        ("NODES", size.nodes),
        ("RUNS", size.runs),
        ("EVENTS", size.events),
    ];
    batch(sql, "farm", include_str!("farm.sql"), &numbers).await;
    for first in (1..=size.runs).step_by(usize::try_from(PART).expect("a small number")) {
        let last = (first + PART - 1).min(size.runs);
        let part = [
            ("JOBS", size.jobs),
            ("NODES", size.nodes),
            ("RUNS", size.runs),
            ("FIRST", first),
            ("LAST", last),
        ];
        batch(sql, "runs", include_str!("runs.sql"), &part).await;
    }
    batch(sql, "rest", include_str!("rest.sql"), &numbers).await;
    println!("seeded {size:?} in {:.1?}", began.elapsed());
}

/// The partitions of the past, and the history's triggers off.
pub async fn partitions(sql: &Client) {
    batch(sql, "partitions", include_str!("partitions.sql"), &[]).await;
}

async fn batch(sql: &Client, what: &str, text: &str, numbers: &[(&str, i64)]) {
    let mut text = text.to_owned();
    for (name, number) in numbers {
        text = text.replace(&format!(":{name}:"), &number.to_string());
    }
    sql.batch_execute(&text)
        .await
        .unwrap_or_else(|e| panic!("seeding {what}: {e:?}"));
}
