//! Pools, locks and rates on whole farms, by the jobs' own witness.

use std::time::Duration;

use farmhand_tests::farm::Farm;
use farmhand_tests::witness::boot_ns;

/// For runs that wait for each other, on a machine busy with other things.
const LONG: Duration = Duration::from_secs(90);

/// Waits until so many runs of a job have reached their end.
async fn ended(farm: &Farm, job: &str, wanted: usize) {
    farm.eventually("runs end", LONG, async || match farm.witness.ends(job) {
        n if n >= wanted => Ok(()),
        n => Err(format!("{n} of {wanted}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_three_with_fifty_waiting_runs_is_never_exceeded_and_is_resized_while_it_runs() {
    let farm = Farm::new()
        .agents(4)
        // Not so long that it makes polls rare, by which the other nodes get places.
        .ttl(Duration::from_secs(10))
        .jobs("[pool.p]\nsize = 3\n[job.j]\npool = 'p'\ncommand = [WITNESS, '250']\n")
        .start()
        .await;
    let submit = async |runs: usize| {
        for _ in 0..runs {
            farm.submit("j").await;
        }
    };
    // What the farm says is waited for; what the commands say shows that it was never more.
    let run = async |what: &str, wanted: std::ops::RangeInclusive<i64>| {
        farm.eventually(what, LONG, async || {
            let sql = "SELECT count(*) FROM farmhand.run_live WHERE state = 'running'";
            match farm.value::<i64>(sql).await {
                n if wanted.contains(&n) => Ok(()),
                n => Err(format!("{n} run")),
            }
        })
        .await;
    };
    submit(50).await;
    run("three run", 3..=3).await;
    let larger = boot_ns();
    farm.ok(&["pool", "set", "p", "5"]);
    submit(5).await;
    run("more run", 4..=5).await;
    ended(&farm, "j", 35).await;
    farm.ok(&["pool", "set", "p", "1"]);
    run("fewer run", 0..=1).await;
    let smaller = boot_ns();
    submit(5).await;
    ended(&farm, "j", 60).await;
    let crowds = farm.witness.crowds(|l| l.job == "j");
    assert_eq!(crowds.len(), 60);
    let most = |from: u64, to: u64| {
        let within = crowds.iter().filter(|(at, _)| (from..to).contains(at));
        within.map(|(_, n)| *n).max().unwrap_or(0)
    };
    assert!(most(0, larger) <= 3, "{crowds:?}");
    assert!(most(larger, smaller) <= 5, "{crowds:?}");
    assert!(most(smaller, u64::MAX) <= 1, "{crowds:?}");
    let nodes: std::collections::BTreeSet<_> = farm.witness.lines().into_iter().map(|l| l.node).collect();
    assert!(
        nodes.len() > 1,
        "one place after the other goes to one node: {nodes:?}"
    );
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_spreads_starts_and_goes_on_by_itself_when_its_time_has_passed() {
    let farm = Farm::new()
        .agents(2)
        .arguments(&["--notify", "off"])
        .jobs("[job.j]\nrate = '2/3s'\nretry = { max = 1, backoff = 'constant', base = '10ms' }\ncommand = [WITNESS, '50', 'exit=1']\n")
        .start()
        .await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(farm.submit("j").await);
    }
    for run in runs {
        let done = farm.over(run, LONG).await;
        assert_eq!((done.state.as_str(), done.retries), ("failed", 1), "{done:?}");
    }
    let sql = "SELECT array_agg(extract(epoch FROM claimed_at)::float8 ORDER BY claimed_at) FROM (
        SELECT claimed_at FROM farmhand.run_history UNION ALL SELECT claimed_at FROM farmhand.attempt) s";
    let starts: Vec<f64> = farm.value(sql).await;
    assert_eq!(starts.len(), 6);
    for three in starts.windows(3) {
        let within = three[2] - three[0];
        assert!(within > 2.999, "three starts within {within} s: {starts:?}");
    }
    farm.check().await;
}
