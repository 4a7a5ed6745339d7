//! Every GET of the API and every page, on a farm with a million finished runs, 10,000 jobs and 200 nodes:
//!
//!     cargo run --release -p farmhand-bench --bin bench-pages -- [TIMES [small]]
//!
//! One agent serves them over the loopback; each is asked for TIMES times (30), one after the other, from connecting to
//! the last byte. Then runs are claimed and finished, in turns without readers, beside four that load a page a
//! second each, and beside four that ask as fast as they are answered. `tests/bench/README.md` says more.

mod claims;
mod client;

use std::time::Duration;

use farmhand_tests::farm::Farm;
use farmhand_tests::seed::{Size, seed};
use farmhand_web::{Access, routes};

use client::{Answer, Client};

/// What the issue asks for.
const SLOWEST: Duration = Duration::from_millis(100);
const LARGEST: usize = 120 << 10;

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let times: usize = words.next().map_or(30, |n| n.parse().expect("a number of times"));
    let size = match words.next().as_deref() {
        Some("small") => Size::SMALL,
        _ => Size::FULL,
    };
    let farm = Farm::new()
        .agents(1)
        .slots(4)
        .ttl(Duration::from_secs(30))
        .start()
        .await;
    seed(&farm.sql, size).await;
    let beating = tokio::spawn(beat(farm.database.client().await));
    let token = farm
        .ok(&["token", "create", "bench", "--role", "viewer"])
        .trim()
        .to_owned();
    let client = Client::new(farm.agents[0].port, &token);

    println!(
        "{:<56} {:>6} {:>8} {:>8} {:>8} {:>9}",
        "path", "status", "p50 ms", "p95 ms", "max ms", "bytes"
    );
    let (mut api, mut pages) = (Vec::new(), Vec::new());
    for (is_page, path) in paths(&farm, size).await {
        let answers = ask(&client, &path, times).await;
        report(&path, &answers);
        let all = if is_page { &mut pages } else { &mut api };
        all.extend(answers.iter().map(|a| a.took));
    }
    let (api, pages) = (part(&mut api, 0.95), part(&mut pages, 0.95));
    println!(
        "all GETs of the API: p95 {:.1} ms; all pages: p95 {:.1} ms",
        millis(api),
        millis(pages)
    );
    let first = first_load(&client).await;
    println!("first load, compressed: {first} bytes (aim {LARGEST})");
    let met = api <= SLOWEST && first <= LARGEST;
    println!("the aims are {}", if met { "met" } else { "NOT met" });
    claims::compare(&farm, &client).await;
    beating.abort();
}

/// The nodes of the seeded farm renew, as they would.
async fn beat(sql: farmhand_tests::pg::Client) {
    let mut ticks = tokio::time::interval(Duration::from_secs(5));
    loop {
        ticks.tick().await;
        let renewed = "UPDATE farmhand.node SET renewals = renewals + 1 WHERE address LIKE 'node-%' AND open";
        sql.exec(renewed).await;
    }
}

/// The routes with something to look at put into them, and the filters that take other paths.
async fn paths(farm: &Farm, size: Size) -> Vec<(bool, String)> {
    let run = size.runs - 3;
    let mut paths: Vec<(bool, String)> = (routes().table().iter())
        .filter(|route| route.method.as_str() == "GET")
        .filter(|route| {
            !["/stream", "/follow", "/assets/", "/log.txt", "/act/"]
                .iter()
                .any(|part| route.path.contains(part))
        })
        .map(|route| {
            let path = (route.path)
                .replace("{job}", "job-00008")
                .replace("{run}", &run.to_string())
                .replace("{node}", "node-0003")
                .replace("{address}", "node-0003")
                .replace("{id}", &run.to_string())
                .replace("{name}", "job-00008");
            (matches!(route.access, Access::Page(_)), path)
        })
        // A pool and a flow are not in this farm; what is open needs no database.
        .filter(|(_, path)| !path.contains('{') && !path.ends_with("/flow") && path != "/login")
        .collect();
    let second = next_page(farm, "/api/v1/runs").await;
    for path in [
        "/api/v1/runs?state=failed,timed_out,lost",
        "/api/v1/runs?state=running",
        "/api/v1/runs?node=node-0007",
        "/api/v1/runs?job=job-00042&state=failed",
        "/api/v1/runs?limit=200",
        second.as_str(),
        "/api/v1/jobs?limit=200",
        "/api/v1/jobs?name=99&state=failing",
        "/api/v1/jobs?kind=scheduled&label=role%3Dweb",
        "/api/v1/events?severity=error",
        "/api/v1/events?job=job-00042",
        "/api/v1/nodes?limit=200",
    ] {
        paths.push((false, path.to_owned()));
    }
    let day = farm
        .value::<String>("SELECT to_char(now() AT TIME ZONE 'UTC' - interval '20 days', 'YYYY-MM-DD')")
        .await;
    paths.push((
        false,
        format!("/api/v1/lanes?from={day}T00:00:00Z&to={day}T01:00:00Z"),
    ));
    paths.push((
        false,
        format!("/api/v1/lanes?from={day}T00:00:00Z&to={day}T23:00:00Z"),
    ));
    paths.push((
        false,
        format!("/api/v1/runs?since={day}T00:00:00Z&until={day}T23:00:00Z&node=node-0009"),
    ));
    paths
}

async fn next_page(farm: &Farm, list: &str) -> String {
    let token = farm
        .ok(&["token", "create", "bench-2", "--role", "viewer"])
        .trim()
        .to_owned();
    let answer = Client::new(farm.agents[0].port, &token).get(list).await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let page: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    format!("{list}?cursor={}", page["next"].as_str().unwrap_or_default())
}

async fn ask(client: &Client, path: &str, times: usize) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(times);
    // The first finds caches cold, and does not count.
    client.get(path).await;
    for _ in 0..times {
        answers.push(client.get(path).await);
        // Below what one token may ask for in a second.
        tokio::time::sleep(Duration::from_millis(8)).await;
    }
    answers
}

fn report(path: &str, answers: &[Answer]) {
    let mut taken: Vec<Duration> = answers.iter().map(|a| a.took).collect();
    let status = answers.iter().map(|a| a.status).max().unwrap_or(0);
    let bytes = answers.iter().map(|a| a.body.len()).max().unwrap_or(0);
    let shown: String = path.chars().take(56).collect();
    println!(
        "{shown:<56} {status:>6} {:>8.1} {:>8.1} {:>8.1} {bytes:>9}",
        millis(part(&mut taken, 0.5)),
        millis(part(&mut taken, 0.95)),
        millis(part(&mut taken, 1.0)),
    );
    assert!(status == 200, "{path}: {status}");
}

/// The page of now with everything that it loads, as a browser gets it.
async fn first_load(client: &Client) -> usize {
    let page = client.get_compressed("/").await;
    let plain = client.get("/").await;
    let text = String::from_utf8_lossy(&plain.body).into_owned();
    let mut bytes = page.body.len();
    let mut seen = std::collections::BTreeSet::new();
    for link in text.split('"').filter(|word| word.starts_with("/assets/")) {
        if seen.insert(link.to_owned()) {
            bytes += client.get_compressed(link).await.body.len();
        }
    }
    bytes
}

fn part(taken: &mut [Duration], part: f64) -> Duration {
    taken.sort_unstable();
    match taken.len() {
        0 => Duration::ZERO,
        n => taken[((n - 1) as f64 * part).round() as usize],
    }
}

fn millis(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}
