//! Many jobs due at one instant.

use std::fmt::Write;
use std::time::Duration;

use farmhand_tests::farm::Farm;
use farmhand_tests::witness::boot_ns;

/// 1,000 normally; 10,000 with `FARMHAND_FULL=1`.
fn scale() -> usize {
    if std::env::var_os("FARMHAND_FULL").is_some() {
        10_000
    } else {
        1_000
    }
}

async fn rounds(farm: &Farm, op: &str) -> f64 {
    let op = format!("op=\"{op}\"");
    farm.agents[0]
        .metric("farmhand_db_query_duration_seconds_count", &[&op])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_due_at_one_instant_all_run_once_and_firing_them_takes_no_round_trip_each() {
    let jobs = scale();
    let mut farm = Farm::new().slots(64).ttl(Duration::from_secs(30)).start().await;
    // Far enough ahead for all of them to be known by then.
    let ahead = if jobs > 1_000 { 60 } else { 40 };
    let at: String = farm
        .value(&format!(
            "SELECT to_char(date_trunc('second', clock_timestamp()) + interval '{ahead} seconds', 'SS MI HH24 DD MM')"
        ))
        .await;
    let mut toml = String::new();
    for n in 0..jobs {
        write!(toml, "[job.j{n}]\nschedule = '{at} *'\ncommand = ['/bin/true']\n").expect("a string");
    }
    farm.apply(&toml);
    let mut before = Vec::new();
    for op in ["fire", "claim", "finish", "started"] {
        before.push(rounds(&farm, op).await);
    }
    let done = "SELECT count(*) FROM farmhand.run_history WHERE state = 'succeeded'";
    farm.becomes_some(
        Duration::from_secs(ahead + 30),
        "SELECT count(*) FROM farmhand.run",
    )
    .await;
    let due = boot_ns();
    farm.becomes(Duration::from_secs(240), done, jobs as i64).await;
    let took = Duration::from_nanos(boot_ns() - due);
    let twice = farm
        .value::<i64>("SELECT count(*) FROM farmhand.run WHERE attempt <> 1 OR state <> 'succeeded'")
        .await;
    let distinct = farm
        .value::<i64>("SELECT count(DISTINCT job_id) FROM farmhand.run")
        .await;
    assert_eq!((distinct, twice), (jobs as i64, 0));
    let mut said = format!("{jobs} jobs in {took:?}; round trips:");
    for (op, before) in ["fire", "claim", "finish", "started"].into_iter().zip(before) {
        let now = rounds(&farm, op).await - before;
        write!(said, " {op} {now}").expect("a string");
        // Claims bring as many as there are slots; a finish as many as ended meanwhile.
        let most = if op == "fire" {
            jobs as f64 / 500.0 + 2.0
        } else {
            jobs as f64
        };
        assert!(now <= most, "{op}: {now} round trips");
    }
    let lag: f64 = farm
        .value("SELECT extract(epoch FROM max(claimed_at - due_at))::float8 FROM farmhand.run_history")
        .await;
    let spawned: f64 = farm
        .value(
            "SELECT extract(epoch FROM max(finished_at) - min(claimed_at))::float8 FROM farmhand.run_history",
        )
        .await;
    eprintln!("{said}; the last was claimed {lag:.2} s after due; first claim to last end {spawned:.2} s");
    farm.check().await;
    farm.agents[0].kill_with_wardens();
}
