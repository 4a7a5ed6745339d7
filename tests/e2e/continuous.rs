//! Jobs that are always due.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::witness::What;

/// Rounds of the job that ended, folds counted whole, by state.
async fn rounds(farm: &Farm, job: &str, state: &str) -> i64 {
    let sql = format!(
        "SELECT coalesce(sum(count), 0)::bigint FROM farmhand.run_history WHERE job_id = '{job}' AND state = '{state}'"
    );
    farm.value(&sql).await
}

async fn records(farm: &Farm, job: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM farmhand.run_history WHERE job_id = '{job}'");
    farm.value(&sql).await
}

async fn at_least(farm: &Farm, job: &str, state: &str, n: i64) {
    farm.eventually("enough rounds", SOON, async || {
        match rounds(farm, job, state).await {
            seen if seen >= n => Ok(()),
            seen => Err(format!("{seen} of {n}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_instance_loops_one_round_after_the_other_and_its_successes_fold() {
    let farm = Farm::new()
        .agents(2)
        .slots(4)
        .jobs("[job.loop]\nschedule = '@continuous'\ninstances = 3\ncommand = [WITNESS, '60']\n")
        .start()
        .await;
    at_least(&farm, "loop", "succeeded", 30).await;
    farm.ok(&["job", "pause", "loop"]);
    farm.becomes(SOON, "SELECT count(*) FROM farmhand.run_live", 0_i64)
        .await;
    let (done, seen) = (
        rounds(&farm, "loop", "succeeded").await,
        farm.witness.ends("loop"),
    );
    assert_eq!(done, i64::try_from(seen).unwrap(), "each round is counted once");
    let folds: i64 = farm
        .value("SELECT count(*) FROM farmhand.run_history WHERE state = 'succeeded'")
        .await;
    assert_eq!(folds, 3, "one record per instance");
    let lines = farm.witness.lines();
    let last = lines.iter().filter(|l| l.what == What::Start).count();
    assert_eq!(last, seen, "no round was cut short");

    farm.ok(&["job", "resume", "loop"]);
    at_least(&farm, "loop", "succeeded", done + 6).await;
    let started: f64 = {
        let mut sum = 0.0;
        for agent in &farm.agents {
            sum += agent
                .metric("farmhand_runs_started_total", &["kind=\"continuous\""])
                .await;
        }
        sum
    };
    assert!(started >= 36.0, "{started}");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_round_rests_and_counts_as_a_success() {
    let farm = Farm::new()
        .jobs(
            "[job.idle]\nschedule = '@continuous'\nidle_exit = [250, 251]\nidle_delay = '400ms'\n
             command = [WITNESS, '10', 'exit=250']\n
             [job.rests]\nschedule = '@continuous'\nidle_exit = 250\ncommand = [WITNESS, '10', 'exit=250']\n",
        )
        .start()
        .await;
    at_least(&farm, "idle", "succeeded", 4).await;
    assert_eq!(records(&farm, "idle").await, 1);
    let lines = farm.witness.lines();
    let starts: Vec<u64> = (lines.iter())
        .filter(|l| l.job == "idle" && l.what == What::Start)
        .map(|l| l.at)
        .collect();
    for pair in starts.windows(2) {
        let rest = Duration::from_nanos(pair[1] - pair[0]);
        assert!(rest >= Duration::from_millis(400), "{rest:?}");
    }
    let failures: i32 = farm
        .value("SELECT max(consecutive_failures) FROM farmhand.job_stat")
        .await;
    assert_eq!(failures, 0);
    at_least(&farm, "rests", "succeeded", 1).await;
    let said = farm.ok(&["explain", "job", "rests"]);
    assert!(
        said.contains("waits until") && said.contains("found nothing to do"),
        "{said}"
    );
    let next = farm.ok(&["--json", "next", "rests"]);
    let next: serde_json::Value = serde_json::from_str(&next).unwrap();
    assert_eq!(next["instants"].as_array().map(Vec::len), Some(1), "{next}");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_back_off_are_recorded_one_by_one_and_never_end_the_loop() {
    let farm = Farm::new()
        .jobs(
            "[job.crash]\nschedule = '@continuous'\nretry = { max = 1, base = '200ms', cap = '800ms' }\n
             command = [WITNESS, '5', 'exit=3']\n",
        )
        .start()
        .await;
    at_least(&farm, "crash", "failed", 6).await;
    let failing = farm.ok(&["status"]);
    assert!(failing.contains("crash"), "{failing}");
    farm.ok(&["job", "pause", "crash"]);
    farm.becomes(SOON, "SELECT count(*) FROM farmhand.run_live", 0_i64)
        .await;
    // One that had become due when the job was paused has a record as well.
    let skipped = rounds(&farm, "crash", "skipped").await;
    assert_eq!(
        rounds(&farm, "crash", "failed").await + skipped,
        records(&farm, "crash").await
    );
    let lines = farm.witness.lines();
    let starts: Vec<u64> = (lines.iter())
        .filter(|l| l.what == What::Start)
        .map(|l| l.at)
        .collect();
    for (pair, least) in starts.windows(2).zip([100, 200, 400, 400, 400]) {
        let rest = Duration::from_nanos(pair[1] - pair[0]);
        assert!(
            rest >= Duration::from_millis(least),
            "{rest:?} where {least} ms is the least"
        );
    }
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_looping_job_costs_next_to_nothing_once_backed_off() {
    let farm = Farm::new()
        .ttl(Duration::from_secs(30))
        .jobs(
            "[job.crash]\nschedule = '@continuous'\nretry = { backoff = 'constant', base = '10s' }\n
             command = ['false']\n",
        )
        .start()
        .await;
    at_least(&farm, "crash", "failed", 1).await;
    let cost = async || {
        let mut of_runs = 0.0;
        for op in [
            "claim",
            "finish_round",
            "finish",
            "started",
            "append_log",
            "trim_log",
            "log_end",
            "read_back",
            "record_events",
        ] {
            of_runs += farm.agents[0]
                .metric(
                    "farmhand_db_query_duration_seconds_count",
                    &[&format!("op=\"{op}\"")],
                )
                .await;
        }
        of_runs
    };
    let before = cost().await;
    at_least(&farm, "crash", "failed", 2).await;
    let cycle = cost().await - before;
    // The default cap of 5 minutes pauses at least 150 s: a farm that pays this much per round stays below
    // four statements a minute.
    eprintln!("{cycle} statements per failed round");
    assert!(cycle * 60.0 / 150.0 <= 4.0, "{cycle} statements per failed round");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_drains_ends_its_round_and_another_goes_on_with_the_loop() {
    let mut farm = Farm::new()
        .agents(2)
        .jobs("[job.loop]\nschedule = '@continuous'\ncommand = [WITNESS, '1200']\n")
        .start()
        .await;
    let first = farm.first_run("loop").await.run_id;
    let home = farm.lives(first, 1).await.running_at.expect("a node");
    farm.agent(&home).signal(libc::SIGINT);
    let status = farm.agent(&home).exit(SOON).await;
    assert!(status.success(), "{status}");
    farm.eventually("the loop goes on elsewhere", SOON, async || {
        let lines = farm.witness.lines();
        let elsewhere = lines.iter().any(|l| l.node != home && l.what == What::Start);
        elsewhere
            .then_some(())
            .ok_or_else(|| format!("{} lines", lines.len()))
    })
    .await;
    assert!(farm.witness.life(first, 1).ended, "the round came to its end");
    assert!(rounds(&farm, "loop", "succeeded").await >= 1);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_instances_of_a_job_spread_over_the_farm_though_one_node_had_room_for_all() {
    let farm = Farm::new().agents(2).slots(4).start().await;
    farm.apply("[job.workers]\nschedule = '@continuous'\ninstances = 4\ncommand = [WITNESS, '30000']\n");
    let shares = farm
        .eventually("all of them run", SOON, async || {
            let runs = farm.runs("workers").await;
            let of = |node: &str| {
                runs.iter()
                    .filter(|r| r.running_at.as_deref() == Some(node))
                    .count()
            };
            match [of("n1"), of("n2")] {
                [one, two] if one + two == 4 => Ok([one, two]),
                some => Err(format!("{some:?}")),
            }
        })
        .await;
    assert_eq!(shares, [2, 2]);
}
