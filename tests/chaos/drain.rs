//! A node is drained: by its jobs' ends, by a deadline, and through kill -9.

use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON, TTL};
use serde_json::Value;

const JOBS: &str = "
    [job.long]
    grace = '300ms'
    command = [WITNESS, '4000', 'daemon']
    [job.short]
    command = [WITNESS, '50']
";

async fn two(ttl: Duration) -> Farm {
    Farm::new().agents(2).ttl(ttl).jobs(JOBS).start().await
}

async fn holder(farm: &Farm, run_id: i64) -> String {
    farm.lives(run_id, 1).await.running_at.expect("a node")
}

fn node(farm: &Farm, address: &str) -> Value {
    serde_json::from_str(&farm.ok(&["node", "show", address, "--json"])).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_finishes_what_it_runs_and_takes_nothing_new_until_it_is_resumed() {
    // Longer than an agent takes to start again.
    let mut farm = two(Duration::from_secs(8)).await;
    let long = farm.submit("long").await;
    let home = holder(&farm, long).await;
    let other = farm.other_than(&home).address.clone();
    let said = farm.ok(&["node", "drain", &home]);
    assert!(
        said.contains("is drained when what it runs (1 run) has ended"),
        "{said}"
    );
    for _ in 0..3 {
        let short = farm.submit("short").await;
        assert_eq!(farm.succeeds(short).await.running_at, Some(other.clone()));
    }
    // The word outlives the agent: what runs is adopted, and nothing new is claimed.
    farm.agent(&home).kill();
    farm.agent(&home).start().await;
    let drained: Value =
        serde_json::from_str(&farm.ok(&["node", "drain", &home, "--wait", "--json"])).expect("JSON");
    assert_eq!(
        (drained["state"].as_str(), drained["running"].as_i64()),
        (Some("draining"), Some(0))
    );
    let done = farm.run(long).await;
    assert_eq!(
        (done.state.as_str(), done.attempt, done.running_at.as_deref()),
        ("succeeded", 1, Some(home.as_str()))
    );
    farm.event("drained").await;
    assert!(farm.ok(&["node", "ls"]).contains("draining"));

    farm.agent(&other).kill_with_wardens();
    farm.event("expired").await;
    let short = farm.submit("short").await;
    let why = farm.ok(&["explain", "job", "short"]);
    assert!(why.contains(&format!("{home} is draining by ")), "{why}");
    assert!(why.contains("since: "), "{why}");
    assert!(why.contains("farmhand node resume"), "{why}");
    assert_eq!(
        farm.ok(&["node", "resume", &home]),
        format!("{home} claims again\n")
    );
    assert_eq!(farm.succeeds(short).await.running_at, Some(home.clone()));
    let told = farm.ok(&["events", "--node", &home]);
    for kind in ["node_drain", "node_resume"] {
        let line = told
            .lines()
            .find(|l| l.contains(kind))
            .unwrap_or_else(|| panic!("{kind}: {told}"));
        assert!(line.contains("by="), "{line}");
    }
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_deadline_of_a_drain_the_rest_runs_elsewhere_and_no_retry_is_used_up() {
    let mut farm = two(TTL).await;
    let long = farm.submit("long").await;
    let home = holder(&farm, long).await;
    let other = farm.other_than(&home).address.clone();
    farm.ok(&["node", "drain", &home, "--deadline", "700ms", "--wait"]);
    let second = farm.lives(long, 2).await;
    assert_eq!(
        (second.running_at.as_deref(), second.retries, second.takeovers),
        (Some(other.as_str()), 0, 0),
        "{second:?}"
    );
    let first = farm.attempts(long).await;
    assert_eq!(first[0].outcome, "released", "{first:?}");
    farm.event("drain_deadline").await;
    let drained = farm.other_than(&home);
    let counted = drained
        .metric("farmhand_lease_takeovers_total", &["cause=\"drain\""])
        .await;
    assert_eq!(counted, 1.0);

    // The only other node dies with it: the draining one does not take it back.
    farm.agent(&other).kill_with_wardens();
    farm.event("expired").await;
    farm.eventually("the run is free", SOON, async || match farm.run(long).await {
        run if run.state == "due" => Ok(()),
        run => Err(format!("{run:?}")),
    })
    .await;
    farm.ok(&["node", "resume", &home]);
    let third = farm.lives(long, 3).await;
    assert_eq!(
        (third.running_at.as_deref(), third.retries, third.takeovers),
        (Some(home.as_str()), 0, 1),
        "{third:?}"
    );
    farm.succeeds(long).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_node_that_dies_is_taken_over_and_comes_back_draining() {
    let mut farm = two(TTL).await;
    let long = farm.submit("long").await;
    let home = holder(&farm, long).await;
    let other = farm.other_than(&home).address.clone();
    farm.ok(&["node", "drain", &home, "--deadline", "10m"]);
    farm.agent(&home).kill_with_wardens();
    let second = farm.lives(long, 2).await;
    assert_eq!(
        (second.running_at.as_deref(), second.takeovers),
        (Some(other.as_str()), 1),
        "{second:?}"
    );
    farm.agent(&home).start().await;
    assert_eq!(node(&farm, &home)["state"], "draining");
    for _ in 0..3 {
        let short = farm.submit("short").await;
        assert_eq!(farm.succeeds(short).await.running_at, Some(other.clone()));
    }
    farm.succeeds(long).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_holds_for_the_agent_that_adopts_what_the_killed_one_ran() {
    let mut farm = two(CALM).await;
    // Longer than an agent takes to start again.
    farm.apply(&JOBS.replace("4000", "9000"));
    let long = farm.submit("long").await;
    let home = holder(&farm, long).await;
    farm.ok(&["node", "drain", &home, "--deadline", "1500ms"]);
    farm.agent(&home).kill();
    farm.agent(&home).start().await;
    let second = farm.lives(long, 2).await;
    assert_ne!(second.running_at.as_deref(), Some(home.as_str()), "{second:?}");
    assert_eq!((second.retries, second.takeovers), (0, 0), "{second:?}");
    farm.succeeds(long).await;
    assert_eq!(farm.events("expired").await, 0);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_drain_can_expire_and_ends_when_somebody_takes_it_back() {
    let farm = two(TTL).await;
    farm.apply(&JOBS.replace("4000", "15000"));
    let long = farm.submit("long").await;
    let home = holder(&farm, long).await;
    let waited = farm.farmhand(&["node", "drain", &home, "--wait-timeout", "200ms"]);
    assert_eq!(waited.status.code(), Some(124), "{waited:?}");
    let waiting = farm.command(&["node", "drain", &home, "--wait"]).spawn();
    farm.eventually("the second drain is told", SOON, async || {
        match farm.events("node_drain").await {
            2 => Ok(()),
            n => Err(n.to_string()),
        }
    })
    .await;
    farm.ok(&["node", "resume", &home]);
    let waiting = waiting
        .and_then(std::process::Child::wait_with_output)
        .expect("it ends");
    assert_eq!(waiting.status.code(), Some(4), "{waiting:?}");
    let unknown = farm.farmhand(&["node", "drain", "nowhere", "--deadline", "1m"]);
    assert_eq!(unknown.status.code(), Some(3), "{unknown:?}");
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(said.contains("no node with the address nowhere"), "{said}");
    let late = Duration::from_secs(60);
    assert_eq!(farm.over(long, late).await.state, "succeeded");
    farm.check().await;
}

/// The row of the run is locked, so that its end waits in the agent.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_not_closed_before_the_ends_of_its_attempts_are_recorded() {
    let mut farm = Farm::new().agents(1).jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    let lock = farm.database.client().await;
    let sql = format!("BEGIN; SELECT FROM farmhand.run_live WHERE run_id = {long} FOR UPDATE");
    lock.exec(&sql).await;
    farm.agents[0].signal(libc::SIGINT);
    let ended = |farm: &Farm| farm.processes_of_run(long).is_empty();
    farm.eventually("the command has ended", SOON, async || {
        ended(&farm).then_some(()).ok_or_else(|| "it lives".to_owned())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(
        farm.agents[0].exited().is_none(),
        "{}",
        farm.agents[0].log_tail(10)
    );
    assert!(farm.value::<bool>("SELECT open FROM farmhand.node").await);
    lock.exec("COMMIT").await;
    let done = farm.succeeds(long).await;
    assert_eq!(done.attempt, 1, "{done:?}");
    assert!(farm.agents[0].exit(SOON).await.success());
    assert!(!farm.value::<bool>("SELECT open FROM farmhand.node").await);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_bounds_a_drain_that_sigint_began() {
    let jobs = JOBS.replace("4000", "60000");
    let builder = Farm::new().agents(1).arguments(&["--stop-timeout", "500ms"]);
    let mut farm = builder.jobs(&jobs).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.agents[0].signal(libc::SIGINT);
    farm.event("draining").await;
    farm.agents[0].signal(libc::SIGTERM);
    assert!(farm.agents[0].exit(SOON).await.success());
    assert_eq!(farm.run(long).await.state, "due");
    farm.check().await;
}
