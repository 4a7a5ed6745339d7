//! A machine that refuses to start processes.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::no_forks::NoForks;

const JOBS: &str = "[job.short]\ncommand = ['true']\n";
const RUNS: i64 = 200;

/// As long as the other node needs for all of them, and a good deal more.
const BOUND: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_fork_gives_its_runs_to_the_others_and_says_so() {
    let mut farm = Farm::new().agents(2).jobs(JOBS).start().await;
    let run_id = farm.submit("short").await;
    let home = farm.succeeds(run_id).await.running_at.expect("a node");
    let forks = NoForks::new(&[farm.agent(&home).wardens()[0].pid]);
    let submitted: i64 = farm
        .value(&format!(
            "SELECT count(farmhand.submit('short')) FROM generate_series(1, {RUNS})"
        ))
        .await;
    assert_eq!(submitted, RUNS);
    let done = farm.becomes(
        BOUND,
        "SELECT count(*) FROM farmhand.run_history WHERE state = 'succeeded'",
        RUNS + 1,
    );
    done.await;
    // It went on trying, one at a time, and not with everything that it could take.
    let refused: i64 = farm
        .value("SELECT count(*) FROM farmhand.attempt WHERE outcome = 'never_started'")
        .await;
    eprintln!("{refused} starts refused");
    assert!((1..=60).contains(&refused), "{refused} starts were refused");

    farm.event("starts_refused").await;
    assert_eq!(
        farm.agent(&home).metric("farmhand_starts_refused", &[]).await,
        1.0
    );
    shows(&farm, &home, "blocked").await;
    let shown = farm.ok(&["node", "show", &home]);
    assert!(shown.contains("it claims nothing, fork:"), "{shown}");
    let status = farm.farmhand(&["status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("1 ready, 1 blocked"), "{status}");

    let other = farm.other_than(&home).address.clone();
    farm.ok(&["node", "cordon", &other]);
    let waiting = farm.submit("short").await;
    farm.eventually("the node is named", SOON, async || {
        let said = farm.farmhand(&["explain", "job", "short"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        said.contains(&format!("{home} is blocked: fork:"))
            .then_some(())
            .ok_or(said)
    })
    .await;
    drop(forks);
    farm.succeeds(waiting).await;
    farm.event("starts_resumed").await;
    shows(&farm, &home, "ready").await;
    assert_eq!(
        farm.agent(&home).metric("farmhand_starts_refused", &[]).await,
        0.0
    );
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_loses_its_session_while_it_starts_nothing_says_when_it_does_again() {
    let mut farm = Farm::new().agents(1).jobs(JOBS).start().await;
    let home = farm.agents[0].address.clone();
    let _forks = NoForks::new(&[farm.agent(&home).wardens()[0].pid]);
    let waiting = farm.submit("short").await;
    farm.event("starts_refused").await;
    // The wardens of the next session are others.
    farm.ok(&["lease", "release", &home, "--force", "--confirm", &home]);
    farm.event("session_lost").await;
    farm.succeeds(waiting).await;
    farm.event("starts_resumed").await;
    assert_eq!(
        farm.agent(&home).metric("farmhand_starts_refused", &[]).await,
        0.0
    );
    shows(&farm, &home, "ready").await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_write_its_memory_is_blocked_until_it_can() {
    let mut farm = Farm::new().agents(2).jobs(JOBS).start().await;
    let agent = &mut farm.agents[0];
    let (home, memory) = (agent.address.clone(), agent.state_dir.join("memory"));
    agent.signal(libc::SIGTERM);
    agent.exit(SOON).await;
    let _ = std::fs::remove_file(memory.join("database.json"));
    // In the way of the file that is made anew.
    std::fs::create_dir_all(memory.join("database.new")).expect("a directory");
    farm.agents[0].spawn();
    shows(&farm, &home, "blocked").await;
    let shown = farm.ok(&["node", "show", &home]);
    assert!(
        shown.contains("cannot write what is remembered of the database"),
        "{shown}"
    );
    std::fs::remove_dir(memory.join("database.new")).expect("removed");
    shows(&farm, &home, "ready").await;
    farm.check().await;
}

/// An agent renews at a third of it: later than the 10 s for which a thread without work is kept by default.
const LONG: Duration = Duration::from_secs(45);

/// Two renewals.
const QUIET: Duration = Duration::from_secs(31);

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_can_make_no_thread_goes_on() {
    let farm = Farm::new().agents(1).ttl(LONG).jobs(JOBS).start().await;
    let before = farm.submit("short").await;
    farm.succeeds(before).await;
    let forks = NoForks::new(&[farm.agents[0].pid()]);
    tokio::time::sleep(QUIET).await;
    let after = farm.submit("short").await;
    farm.succeeds(after).await;
    assert!(farm.agents[0].is_running(), "{}", farm.agents[0].log());
    drop(forks);
    farm.check().await;
}

async fn shows(farm: &Farm, node: &str, state: &str) {
    farm.eventually(&format!("{node} is {state}"), SOON, async || {
        let shown = farm.ok(&["node", "show", node]);
        let line = shown.lines().find(|line| line.starts_with("state")).unwrap_or("");
        line.contains(state).then_some(()).ok_or(shown.clone())
    })
    .await;
}
