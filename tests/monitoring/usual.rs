//! A run that takes longer than usual: found by one agent, told once, and said alike by all that say it.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};

use crate::holder::holder;

const JOB: &str = "[job.weary]\ncommand = ['sleep', '600']\ngrace = '0s'\n";
const FIVE: &str = "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state,
        ended_by, attempt, retries, takeovers, params, created_at, started_at, finished_at, first_due, last_due)
    SELECT nextval('farmhand.run_id_seq'), 'weary', 1, 'submitted', 0, 1, now(), now(), 'succeeded', 'holder', 1, 0, 0, '{}', now(),
        now() - interval '2 s', now(), now(), now() FROM generate_series(1, 5)";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_longer_than_usual_is_one_event_and_said_alike_everywhere() {
    let mut farm = Farm::new().agents(2).jobs(JOB).start().await;
    farm.exec(FIVE).await;
    let run = farm.submit("weary").await;
    // It is slow after ten seconds, and somebody has to look.
    farm.eventually("it is told", Duration::from_secs(60), async || {
        match farm.events("run_slow").await {
            0 => Err("not yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let told =
        "SELECT run_id::text || ' ' || (detail->>'p95_ms') || ' ' || (detail->>'of') FROM farmhand.event
        WHERE kind = 'run_slow' AND (detail->>'ran_ms')::bigint >= 10000 AND detail->>'node' LIKE 'n_'";
    assert_eq!(farm.value::<String>(told).await, format!("{run} 2000 5"));

    let why = "longer than usual: 95 of 100 of its last 5 successes took at most 2.0s";
    let status = farm.ok(&["status"]);
    assert!(
        status.contains(&format!("run {run} of weary has run for")),
        "{status}"
    );
    assert!(status.contains(&format!("{why} [slow:{run}]")), "{status}");
    let shown = farm.ok(&["run", "show", &run.to_string()]);
    assert!(shown.contains(why), "{shown}");
    // Another agent finds the same, and tells nobody again.
    let first = holder(&farm, "", SOON).await;
    shows(&farm, &first, 1).await;
    farm.agent(&first).kill();
    let second = holder(&farm, &first, SOON).await;
    shows(&farm, &second, 1).await;
    farm.ok(&["run", "cancel", &run.to_string()]);
    farm.over(run, Duration::from_secs(60)).await;
    shows(&farm, &second, 0).await;
    let left = "SELECT count(*) FROM farmhand.slow_run";
    farm.becomes(SOON, left, 0_i64).await;
    assert_eq!(farm.events("run_slow").await, 1);
    let status = farm.ok(&["status"]);
    assert!(!status.contains("longer than usual"), "{status}");
}

/// The gauges of the agent that exposes the farm.
async fn shows(farm: &Farm, agent: &str, runs: i64) {
    let agent = farm.agents.iter().find(|a| a.address == agent).expect("an agent");
    let wanted = format!("\nfarmhand_farm_slow_runs {runs}\n");
    let named = "farmhand_farm_slow_run_seconds{job_name=\"weary\"} ";
    farm.eventually("its gauges", Duration::from_secs(60), async || {
        let page = agent.get_within("/metrics", Duration::from_secs(2)).await;
        match page {
            Some((_, text)) if text.contains(&wanted) && text.contains(named) == (runs > 0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
