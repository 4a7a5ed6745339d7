//! kill -9 in the middle of what holds places in pools, locks and rates.

use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm};

const LONG: Duration = Duration::from_secs(60);

/// Submits `runs` of each job, kills agent and wardens of the node that runs the first, and waits until all have
/// succeeded. Returns the killed node, and the first run.
async fn kill_in_the_middle(farm: &mut Farm, jobs: &[&str], runs: usize) -> (String, i64) {
    // The first is on its way before the others, of which there may be many, are told.
    let mut all = vec![farm.submit(jobs[0]).await];
    let home = farm.lives(all[0], 1).await.running_at.expect("a node");
    for job in jobs.iter().cycle().take(runs * jobs.len()).skip(1) {
        all.push(farm.submit(job).await);
    }
    farm.agent(&home).kill_with_wardens();
    farm.lives(all[0], 2).await;
    let after = farm.witness.life(all[0], 2);
    assert_ne!(after.node, home);
    for run in &all {
        let done = farm.over(*run, LONG).await;
        assert_eq!(done.state, "succeeded", "{done:?}");
    }
    (home, all[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_in_a_pool_is_free_after_the_takeover_and_not_before() {
    let mut farm = Farm::new()
        .agents(2)
        .jobs(
            "[pool.p]\nsize = 1\n[job.j]\npool = 'p'\ncommand = [WITNESS, '2500', 'ignore-term', 'daemon']\n",
        )
        .start()
        .await;
    kill_in_the_middle(&mut farm, &["j"], 3).await;
    assert_eq!(farm.witness.most_at_once(|l| l.job == "j"), 1);
    let pools: serde_json::Value = serde_json::from_str(&farm.ok(&["pool", "ls", "--json"])).expect("JSON");
    assert_eq!(
        pools["items"][0]["holders"],
        serde_json::json!([]),
        "no place leaks"
    );
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_adopts_what_its_predecessor_ran_counts_it_for_the_pool_of_its_node() {
    let mut farm = Farm::new()
        .ttl(CALM)
        .jobs("[pool.disk]\nsize = 1\n[job.j]\nnode_pool = 'disk'\ncommand = [WITNESS, '4000']\n")
        .start()
        .await;
    let first = farm.submit("j").await;
    farm.lives(first, 1).await;
    farm.agent("n1").kill();
    farm.agent("n1").start().await;
    let second = farm.submit("j").await;
    for run in [first, second] {
        let done = farm.over(run, LONG).await;
        assert_eq!((done.state.as_str(), done.attempt), ("succeeded", 1), "{done:?}");
    }
    assert_eq!(farm.witness.most_at_once(|_| true), 1);
    farm.check().await;
}
