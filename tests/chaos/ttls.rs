//! Leases of several lengths, and one that changes while jobs run.

use std::time::{Duration, Instant};

use farmhand_tests::farm::{Farm, SOON};

const LONG: Duration = Duration::from_secs(14);

/// The agent comes back with a lease of 3 s, adopts, and dies: its warden lives until the end of the long lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_shortened_by_a_restart_leaves_one_live_attempt_of_a_run() {
    let mut farm = Farm::new()
        .agents(2)
        .jobs("[job.long]\ncommand = [WITNESS, '40000']\n")
        .prepare()
        .await;
    farm.agents[0].arguments[1] = "14s".to_owned();
    farm.agents[0].start().await;
    let run_id = farm.submit("long").await;
    farm.lives(run_id, 1).await;
    farm.agents[1].start().await;
    farm.agents[0].kill();
    farm.agents[0].arguments[1] = "3s".to_owned();
    farm.agents[0].start().await;
    farm.event("session_adopted").await;
    farm.agents[0].kill();
    farm.eventually("another node takes the run over", LONG * 2 + SOON, async || {
        let run = farm.run(run_id).await;
        match run.attempt {
            2 => Ok(()),
            _ => Err(format!("{run:?}")),
        }
    })
    .await;
    farm.lives(run_id, 2).await;
    let (first, second) = (farm.witness.life(run_id, 1), farm.witness.life(run_id, 2));
    assert!(
        first.last < second.first,
        "attempt 1 lived {:?} beside attempt 2",
        Duration::from_nanos(first.last.saturating_sub(second.first))
    );
    farm.check().await;
}

/// A lease of 60 s is renewed every 10 s; what is due does not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_long_lease_claims_as_soon_as_it_has_started() {
    let mut farm = Farm::new()
        .agents(1)
        .ttl(Duration::from_secs(60))
        .jobs("[job.short]\ncommand = [WITNESS, '100']\n")
        .prepare()
        .await;
    let run_id = farm.submit("short").await;
    farm.start_agents().await;
    let ready = Instant::now();
    farm.succeeds(run_id).await;
    assert!(
        ready.elapsed() < Duration::from_secs(9),
        "after {:?}",
        ready.elapsed()
    );
}
