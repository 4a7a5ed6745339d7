//! kill -9 of what holds the rounds of a continuous job.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON, TAKEOVER};
use farmhand_tests::witness::{What, boot_ns};

#[tokio::test(flavor = "multi_thread")]
async fn the_rounds_of_a_killed_node_are_elsewhere_in_time_and_every_instance_loops_on() {
    let mut farm = Farm::new()
        .agents(2)
        .slots(3)
        .jobs("[job.loop]\nschedule = '@continuous'\ninstances = 4\ncommand = [WITNESS, '250', 'daemon']\n")
        .start()
        .await;
    let home = {
        let first = farm.first_run("loop").await.run_id;
        farm.lives_or_is_over(first).await;
        farm.witness.lines()[0].node.clone()
    };
    farm.eventually("both nodes work", SOON, async || {
        let lines = farm.witness.lines();
        let nodes: std::collections::BTreeSet<_> = lines.iter().map(|l| l.node.clone()).collect();
        if nodes.len() == 2 && lines.len() > 60 {
            Ok(())
        } else {
            Err(format!("{nodes:?}"))
        }
    })
    .await;
    let held: Vec<i64> = held(&farm, &home).await;
    let killed = boot_ns();
    farm.agent(&home).kill_with_wardens();
    // What was begun before may write its first line a moment later.
    let dead = boot_ns() + 1_000_000_000;
    for run in &held {
        farm.eventually("the round is taken over", SOON, async || {
            let lives = farm.witness.lives(*run);
            if lives.len() > 1 || lives.values().any(|l| l.ended) {
                Ok(())
            } else {
                Err(format!("{lives:?}"))
            }
        })
        .await;
        if let Some(again) = farm.witness.lives(*run).get(&2) {
            let delay = Duration::from_nanos(again.first.saturating_sub(killed));
            assert!(delay <= TAKEOVER, "{delay:?}");
            assert_ne!(again.node, home);
        }
    }
    // Every instance has a live round again, one each, and their rounds come to their ends.
    let ended = farm.witness.ends("loop");
    farm.eventually("the loops go on", SOON, async || {
        let live: i64 = farm
            .value(
                "SELECT count(DISTINCT instance) FROM farmhand.run_live WHERE kind = 'continuous'
                 HAVING count(*) = count(DISTINCT instance)",
            )
            .await;
        let more = farm.witness.ends("loop").saturating_sub(ended);
        if live == 4 && more >= 8 {
            Ok(())
        } else {
            Err(format!("{live} live, {more} more"))
        }
    })
    .await;
    let starts = farm.witness.lines();
    let late = (starts.iter()).any(|l| l.node == home && l.what == What::Start && l.at > dead);
    assert!(!late, "nothing began on the killed node");
    farm.check().await;
}

async fn held(farm: &Farm, node: &str) -> Vec<i64> {
    let sql = "SELECT run_id FROM farmhand.run_live WHERE running_at = $1";
    let rows = farm.sql.query(sql, &[&node]).await.expect("the runs");
    rows.iter().map(|r| r.get(0)).collect()
}
